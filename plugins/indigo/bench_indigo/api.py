"""Public interface for other distributions: the generation order of outputs."""

from bench_indigo.trajectory import orders

__all__ = ["orders"]
