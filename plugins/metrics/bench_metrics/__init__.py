"""Metrics of text and of likelihood."""
