"""Extract the data of figures from a run, and draw the figures.

Figures of generation order are in `bench_indigo`.
"""
