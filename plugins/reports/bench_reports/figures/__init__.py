"""Figures: their data from a run, and their drawing.

Not here: figures of generation order, which `bench_indigo` adds.
"""
