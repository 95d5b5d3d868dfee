"""Intervals, significance tests and bootstraps.

Not here: resampling of examples, which is done where a metric is computed (`bench_core.computing.bootstrap`).
"""
