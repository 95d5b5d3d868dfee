"""What other plugins may import, besides the Configs in `bench_huggingface.plugin`."""

from __future__ import annotations

from bench_huggingface.lm import CausalLM

__all__ = ["CausalLM"]
