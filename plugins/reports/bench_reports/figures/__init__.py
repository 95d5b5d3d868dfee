"""Figures: their data from a run, and their drawing."""
