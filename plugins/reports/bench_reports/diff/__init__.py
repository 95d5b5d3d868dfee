"""Comparison of two cells of a run.

Not here: the tests of tables (`statistics.significance`).
"""
