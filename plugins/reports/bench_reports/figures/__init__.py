"""Figures: their data from a run, and their drawing.

Figures of generation order are in `bench_indigo`.
"""
