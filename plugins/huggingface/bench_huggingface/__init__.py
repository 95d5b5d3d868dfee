"""Causal language models of Hugging Face transformers."""
