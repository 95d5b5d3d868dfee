"""What other plugins may import, besides the Configs in `bench_decoders.plugin`."""

from bench_decoders.ties import best

__all__ = ["best"]
