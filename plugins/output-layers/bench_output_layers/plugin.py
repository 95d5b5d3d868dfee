"""The settings and parts that this plugin provides; does not import torch."""

from collections.abc import Mapping, Set
from itertools import pairwise
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from bench_core import Kind, MetricConfig, ModelConfig, ProbeConfig, Scorer, Stepper, hookimpl
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
    AnyOutputLayer,
    ErrorCorrectingCodes,
    FullOutputLayer,
    Hierarchical,
    MaximumEntropy,
    Naive,
    OutputLayer,
    PriorTempered,
    Reading,
    check_tied,
    fits_on_validation,
    inexact_laws,
    vector_files,
)

__all__ = [
    "BlendConfig", "ClosenessConfig", "CodebookConfig", "CodebookProbeConfig", "Codes", "DenseConfig",
    "FullOutputLayer", "GrayWalkConfig", "HashedConfig", "Hierarchical", "HybridConfig", "IdentityConfig",
    "MaximumEntropy", "Naive", "OutputLayer", "PriorTempered", "Reading", "TransformerLMConfig",
    "VectorCodebookConfig", "check_tied", "fits_on_validation", "inexact_laws",
    "vector_files",
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

    Vectors are read from a file, or learned from a text; the embeddings of the model under test are never used.
    """

    name, target = "closeness", "bench_output_layers.closeness:Closeness"
    needs = Scorer
    range = -1, 1
    libraries = frozenset({"gensim"})

    vectors: Path | None = None  #: word vector file in word2vec or GloVe format
    text: Path | None = None  #: text to learn skip-gram vectors from, such as the training split
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


class TransformerLMConfig(ModelConfig):
    """Decoder-only Transformer language model with a softmax, an approximation of it, or error-correcting codes."""

    name, target = "transformer-lm", "bench_output_layers.transformer:TransformerLM"
    capabilities, likelihoods = {Stepper, Scorer}, {"exact": Kind.EXACT}
    evaluation = {"reading"}
    cites = [
        "vaswani2017", "radford2019", "xiong2020", "tied=true: press2017", "output.kind=sampled: jean2015",
        "output.kind=nce: gutmann2010", "output.kind=nce: mnih2012", "output.kind=hierarchical: goodman2001",
        "output.kind=adaptive: grave2017", "output.kind=codes: dietterich1995", "output.kind=codes: oneill2019",
    ]  # fmt: skip

    d_model: PositiveInt = 256  #: d, size of a state
    heads: PositiveInt = 4  #: attention heads; each has d_model / heads dimensions
    layers: PositiveInt = 4  #: number of layers
    feed_forward: PositiveInt = 1024  #: hidden units of the feed-forward sublayers
    dropout: float = Field(0.1, ge=0, lt=1)  #: rate on embeddings and on the output of every sublayer
    context: PositiveInt = 1024  #: maximum number of tokens, which sets the number of learned positions
    tied: bool = False  #: use one matrix for embedding and output layer (Press and Wolf, 2017, arXiv:1608.05859)
    output: AnyOutputLayer = FullOutputLayer.model_construct()  #: full, sampled, nce, hierarchical, adaptive or codes
    reading: Reading | None = (
        None  #: naive, prior-tempered or maximum-entropy; default with `output: codes`: prior-tempered
    )
    sparse: bool | None = None  #: update only embeddings of tokens in the batch; not with a tied full softmax

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        if self.d_model % self.heads:
            raise ValueError(
                f"`d_model` must be divisible by `heads`, and {self.d_model} is not divisible by {self.heads}. "
                "Change one of them"
            )
        if self.tied:
            check_tied(self.output)
        coded = isinstance(self.output, ErrorCorrectingCodes)
        if self.reading is not None and not coded:
            raise ValueError(
                f"`reading` makes a distribution of the bits of codes, and `output: {self.output.kind}` has none. "
                "Leave it out, or choose `output: codes`"
            )
        if self.reading is None and coded:  # explicit, so that equal models have equal keys
            vars(self).update(reading=PriorTempered())
        dense = self.tied and self.smooths_labels()
        if self.sparse and dense:
            raise ValueError(
                "`tied` uses all embeddings in a full softmax, so every update changes all of them. Leave `sparse` "
                "out"
            )
        if self.sparse is None:  # explicit, so that equal models have equal keys
            vars(self).update(sparse=not dense)
        return self

    def smooths_labels(self) -> bool:
        """Return whether the softmax is computed in full."""
        return isinstance(self.output, FullOutputLayer)

    def fits_on_validation(self) -> bool:
        """Return whether the temperature or penalty of the reading of codes is to be fitted."""
        return fits_on_validation(self.reading)

    def exempt(self) -> Mapping[str, str]:
        return inexact_laws(self.reading)

    def extras(self) -> Set[str]:
        """Return the extra that installs gensim if word vectors are learned."""
        return {"vectors"} if self.output.learns_vectors() else set()

    def files(self, data: Path) -> Mapping[str, Path]:
        """Return the file of word vectors of the output layer."""
        return vector_files(self.output.vector_file(), data)


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


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the Transformer."""
    return [TransformerLMConfig]
