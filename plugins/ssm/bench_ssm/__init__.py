"""Deep state space models for bench."""
