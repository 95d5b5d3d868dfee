"""Metrics for bench."""
