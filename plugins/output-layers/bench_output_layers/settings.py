"""Settings of output layers; does not import torch."""

from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PositiveInt, field_validator

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


class ErrorCorrectingCodes(Settings):
    """Codes of tokens, ranked by frequency, whose bits are predicted independently."""

    kind: Literal["codes"]
    bits: PositiveInt | None = None  #: codeword length; default: the fewest bits that distinguish the tokens


_Softmax: TypeAlias = FullOutputLayer | Sampled | NoiseContrastive | Hierarchical | Adaptive
_Output: TypeAlias = Annotated[_Softmax, Field(discriminator="kind")]
OutputLayer: TypeAlias = Annotated[_Output, BeforeValidator(kinded(), json_schema_input_type=str | _Output)]
_Any: TypeAlias = Annotated[_Softmax | ErrorCorrectingCodes, Field(discriminator="kind")]
AnyOutputLayer: TypeAlias = Annotated[_Any, BeforeValidator(kinded(), json_schema_input_type=str | _Any)]


def check_tied(output: _Softmax | ErrorCorrectingCodes) -> None:
    """Raise ValueError if an output layer has no matrix [V, H] that could be the embedding."""
    if isinstance(output, Adaptive | ErrorCorrectingCodes):
        raise ValueError(
            f"`output: {output.kind}` has no weight for each token and unit, so it cannot share the embedding. Leave "
            "`tied` out, or choose `output: full`, `sampled`, `nce` or `hierarchical`"
        )
