"""Causal language models of Hugging Face's transformers, for bench."""
