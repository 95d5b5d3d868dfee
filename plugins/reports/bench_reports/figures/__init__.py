"""Figures: what is drawn, and the drawing."""
