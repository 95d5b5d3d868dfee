"""Scores output files without a suite."""
