"""What other plugins may import, besides the Configs in `bench_huggingface.plugin`."""

from bench_huggingface.lm import CausalLM

__all__ = ["CausalLM"]
