"""Intervals, tests and their corrections."""
