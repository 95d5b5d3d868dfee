"""Public interface for other plugins, in addition to the Configs in `bench_huggingface.plugin`."""

from bench_huggingface.lm import CausalLM

__all__ = ["CausalLM"]
