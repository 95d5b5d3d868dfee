"""Hugging Face transformers: published checkpoints with their own tokenizers, and causal LMs over a task's tokens."""
