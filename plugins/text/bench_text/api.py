"""What other plugins may import."""

from bench_text import corpora

__all__ = ["corpora"]
