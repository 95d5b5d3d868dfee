"""Settings of output layers; does not import torch."""

from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator

from bench_core import Settings, kinded


class FullOutputLayer(Settings):
    """A softmax over all tokens."""

    kind: Literal["full"] = "full"


class Sampled(Settings):
    """A softmax trained on the target and sampled tokens only."""

    kind: Literal["sampled"]
    samples: PositiveInt = 1000  #: S, number of sampled tokens, shared by all targets of a batch
    by: Literal["uniform", "unigram"] = "unigram"  #: sampling distribution


class NoiseContrastive(Settings):
    """Noise-contrastive estimation."""

    kind: Literal["nce"]
    samples: PositiveInt = 25  #: k, number of noise words per target, sampled from the unigram distribution


class Hierarchical(Settings):
    """A softmax over classes of tokens, and a softmax over the tokens of each class."""

    kind: Literal["hierarchical"]
    order: Literal["random", "unigram"] = "unigram"  #: order of tokens; consecutive tokens form a class
    size: PositiveInt = 10  #: tokens per class


class Adaptive(Settings):
    """A softmax over frequent tokens and clusters of rare tokens with smaller projections."""

    kind: Literal["adaptive"]
    cutoffs: tuple[PositiveInt, ...] = Field(min_length=1)  #: frequency ranks at which clusters begin

    @field_validator("cutoffs")
    @classmethod
    def _rise(cls, cutoffs: tuple[int, ...]) -> tuple[int, ...]:
        if any(second <= first for first, second in pairwise(cutoffs)):
            raise ValueError(f"`cutoffs` must be increasing, such as [4000, 20000], but are {list(cutoffs)}")
        return cutoffs


_Output: TypeAlias = Annotated[
    FullOutputLayer | Sampled | NoiseContrastive | Hierarchical | Adaptive, Field(discriminator="kind")
]
OutputLayer: TypeAlias = Annotated[_Output, BeforeValidator(kinded(), json_schema_input_type=str | _Output)]


class Naive(Settings):
    """Bits as independent evidence."""

    kind: Literal["naive"] = "naive"


class PriorTempered(Settings):
    """The unigram distribution times the evidence of the bits beyond their base rates, at a temperature."""

    kind: Literal["prior-tempered"] = "prior-tempered"
    temperature: PositiveFloat | None = None  #: tau; default: fitted on the validation split


class MaximumEntropy(Settings):
    """The distribution closest to the unigram distribution whose bits have the predicted probabilities."""

    kind: Literal["maximum-entropy"] = "maximum-entropy"
    steps: PositiveInt = 10  #: maximum number of steps per position; 1: ridge regression, in closed form
    penalty: NonNegativeFloat | None = None  #: factor of |lambda|^2 / 2; default: fitted on the validation split


_Reading: TypeAlias = Annotated[Naive | PriorTempered | MaximumEntropy, Field(discriminator="kind")]
Reading: TypeAlias = Annotated[_Reading, BeforeValidator(kinded(), json_schema_input_type=str | _Reading)]
