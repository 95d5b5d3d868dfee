"""Tasks with known right generation orders: positive controls for models that choose their order."""
