"""Public interface for captioning models, besides the Configs in `bench_captioning.plugin`."""

from bench_captioning.image_encoder import ImageEncoder, image_encoder

__all__ = ["ImageEncoder", "image_encoder"]
