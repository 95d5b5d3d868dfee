"""Metrics of texts and of likelihoods.

Task-specific metrics (captions, code, words, generation order) are in the plugins of their tasks.
"""
