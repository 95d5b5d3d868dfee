"""What other plugins may import, besides the Configs in `bench_decoders.plugin`."""

from bench_decoders.topk import topk_stable

__all__ = ["topk_stable"]
