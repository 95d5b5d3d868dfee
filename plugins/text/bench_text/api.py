"""What other plugins build on."""

from bench_text import corpora

__all__ = ["corpora"]
