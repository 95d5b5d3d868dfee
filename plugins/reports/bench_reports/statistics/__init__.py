"""Intervals, significance tests and bootstraps.

Examples are resampled where a metric is computed (`bench_core.computing.bootstrap`).
"""
