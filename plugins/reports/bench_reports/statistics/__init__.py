"""Intervals, significance tests and bootstraps."""
