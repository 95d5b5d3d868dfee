"""Two cells of a run side by side."""
