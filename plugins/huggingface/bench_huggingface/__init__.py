"""Hugging Face transformers: published checkpoints in their own tokens, and causal LMs over a task's tokens."""
