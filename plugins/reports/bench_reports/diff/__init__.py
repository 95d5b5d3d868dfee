"""Comparison of two cells of a run."""
