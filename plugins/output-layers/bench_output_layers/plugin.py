"""The settings and parts that this plugin provides; does not import torch."""

from collections.abc import Set
from itertools import pairwise
from pathlib import Path
from typing import Literal, Self

from pydantic import PositiveInt, field_validator, model_validator

from bench_core import MetricConfig, ProbeConfig, Scorer, hookimpl
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
    vector_files,
)  # fmt: skip

__all__ = [
    "BlendConfig", "ClosenessConfig", "CodebookConfig", "CodebookProbeConfig", "Codes", "DenseConfig",
    "FullOutputLayer", "GrayWalkConfig", "HashedConfig", "Hierarchical", "HybridConfig", "IdentityConfig",
    "MaximumEntropy", "Naive", "OutputLayer", "PriorTempered", "Reading", "VectorCodebookConfig", "vector_files",
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


class ClosenessConfig(MetricConfig):
    """Mean cosine between the target and wrong predictions (the most probable token after the gold tokens).

    Vectors are read from a file, or learned from a text: never those of the model under test.
    """

    name, target = "closeness", "bench_output_layers.closeness:Closeness"
    needs = Scorer
    range = -1, 1
    libraries = frozenset({"gensim"})

    vectors: Path | None = None  #: word vector file in word2vec or GloVe format
    text: Path | None = None  #: text to learn skip-gram vectors from, such as that of the training split
    size: PositiveInt = 100  #: dimensions of learned vectors
    of: Literal["predictions", "unigrams"] = (
        "predictions"  #: `unigrams`: in place of each, a token sampled by frequency
    )
    by: str | None = None  #: likelihood of the model to use; default: its first likelihood

    @model_validator(mode="after")
    def _has_vectors(self) -> Self:
        if (self.vectors is None) == (self.text is None):
            raise ValueError("closeness needs word vectors: set either `vectors`, a file, or `text`, to learn them")
        return self

    def extras(self) -> Set[str]:
        """Return the extra that installs gensim if vectors are learned."""
        return {"vectors"} if self.text is not None else set()


@hookimpl
def bench_codebooks() -> list[type[CodebookConfig]]:
    """Return one Config for each codebook."""
    return [BlendConfig, DenseConfig, GrayWalkConfig, HashedConfig, HybridConfig, IdentityConfig]


@hookimpl
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the codebook probe."""
    return [CodebookProbeConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metric of closeness."""
    return [ClosenessConfig]
