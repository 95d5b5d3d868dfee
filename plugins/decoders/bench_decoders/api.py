"""What other plugins may import, besides the Configs in `bench_decoders.plugin`; imports no torch."""

from __future__ import annotations

from bench_decoders.processors import ProcessorConfig, Processors

__all__ = ["ProcessorConfig", "Processors"]
