"""Deep state space models."""
