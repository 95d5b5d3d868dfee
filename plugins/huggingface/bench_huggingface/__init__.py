"""Causal language models of Hugging Face transformers.

Not here: other architectures, and fetching of weights: models are read from local folders.
"""
