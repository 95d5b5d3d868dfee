"""The settings and parts that this plugin provides; does not import torch."""

from itertools import pairwise
from pathlib import Path

from pydantic import PositiveInt, field_validator

from bench_core import ProbeConfig, hookimpl
from bench_output_layers import hookspecs as hookspecs  # searched by the core for hook specifications
from bench_output_layers.codebook_kinds import (
    BlendConfig,
    DenseConfig,
    GrayWalkConfig,
    HashedConfig,
    HybridConfig,
    IdentityConfig,
)
from bench_output_layers.codebooks import CodebookConfig, Codes, VectorCodebookConfig
from bench_output_layers.settings import (
    FullOutputLayer,
    Hierarchical,
    MaximumEntropy,
    Naive,
    OutputLayer,
    PriorTempered,
    Reading,
)  # fmt: skip

__all__ = [
    "BlendConfig", "CodebookConfig", "CodebookProbeConfig", "Codes", "DenseConfig", "FullOutputLayer",
    "GrayWalkConfig", "HashedConfig", "Hierarchical", "HybridConfig", "IdentityConfig", "MaximumEntropy", "Naive",
    "OutputLayer", "PriorTempered", "Reading", "VectorCodebookConfig",
]  # fmt: skip


class CodebookProbeConfig(ProbeConfig):
    """Distances and variance of a model's codewords, by frequency band."""

    name, target = "codebook", "bench_output_layers.codebook_probe:CodebookProbe"

    bands: tuple[PositiveInt, ...] = (100, 1000, 10_000)  #: last frequency ranks of all bands but the last
    vectors: Path | None = None  #: word vectors to compare distances with; default: the file of the model's codebook

    @field_validator("bands")
    @classmethod
    def _rise(cls, bands: tuple[int, ...]) -> tuple[int, ...]:
        if any(second <= first for first, second in pairwise(bands)):
            raise ValueError(f"`bands` must be increasing, such as [100, 1000], but are {list(bands)}")
        return bands


@hookimpl
def bench_codebooks() -> list[type[CodebookConfig]]:
    """Return one Config for each codebook."""
    return [BlendConfig, DenseConfig, GrayWalkConfig, HashedConfig, HybridConfig, IdentityConfig]


@hookimpl
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the codebook probe."""
    return [CodebookProbeConfig]
