"""Figures: their data from a run, then their drawing."""
