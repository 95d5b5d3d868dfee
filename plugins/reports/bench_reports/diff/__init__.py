"""Comparison of two cells of a run. The tests of tables are in `content.significance`."""
