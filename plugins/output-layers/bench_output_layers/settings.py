"""Settings of output layers; does not import torch."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from bench_core import DataError, Settings, kinded
from bench_output_layers.codebook_kinds import GrayWalkConfig
from bench_output_layers.codebooks import Codes

MAX_FLOAT32_STEPS = 20  #: steps of maximum entropy; more could amplify rounding errors of float32


class OutputSettings(Settings):
    """Settings of an output layer."""

    def vector_file(self) -> Path | None:
        """Return the file of word vectors; None if there is none."""
        return None

    def learns_vectors(self) -> bool:
        """Return whether word vectors are learned from the training split."""
        return False


class FullOutputLayer(OutputSettings):
    """A softmax over all tokens."""

    kind: Literal["full"] = "full"


class Sampled(OutputSettings):
    """A softmax trained on the target and sampled tokens only."""

    kind: Literal["sampled"]
    samples: PositiveInt = 1000  #: S, number of sampled tokens, shared by all targets of a batch
    by: Literal["uniform", "unigram"] = "unigram"  #: sampling distribution


class NoiseContrastive(OutputSettings):
    """Noise-contrastive estimation."""

    kind: Literal["nce"]
    samples: PositiveInt = 25  #: k, number of noise words per target, sampled from the unigram distribution


class Hierarchical(OutputSettings):
    """A softmax over classes of tokens, and a softmax over the tokens of each class."""

    kind: Literal["hierarchical"]
    order: Literal["random", "unigram", "embedding"] = "unigram"  #: order of tokens; consecutive tokens form a class
    size: PositiveInt = 10  #: tokens per class
    vectors: Path | None = None  #: word vector file for `order: embedding`; default: learn vectors
    vector_size: PositiveInt = 300  #: dimensions of learned vectors

    @model_validator(mode="after")
    def _vectors_are_used(self) -> Self:
        if self.vectors is not None and self.order != "embedding":
            raise ValueError(
                f"`vectors` are read for `order: embedding`, not {self.order}. Leave them out, or choose this order"
            )
        if self.order != "embedding" or self.vectors is not None:  # unused, so equal models have equal keys
            vars(self).update(vector_size=300)
        return self

    def vector_file(self) -> Path | None:
        return self.vectors

    def learns_vectors(self) -> bool:
        return self.order == "embedding" and self.vectors is None


class Adaptive(OutputSettings):
    """A softmax over frequent tokens and clusters of rare tokens with smaller projections."""

    kind: Literal["adaptive"]
    cutoffs: tuple[PositiveInt, ...] = Field(min_length=1)  #: frequency ranks at which clusters begin

    @field_validator("cutoffs")
    @classmethod
    def _rise(cls, cutoffs: tuple[int, ...]) -> tuple[int, ...]:
        if any(second <= first for first, second in pairwise(cutoffs)):
            raise ValueError(f"`cutoffs` must be increasing, such as [4000, 20000], but are {list(cutoffs)}")
        return cutoffs


class ErrorCorrectingCodes(OutputSettings):
    """Codes of tokens, whose bits are predicted independently."""

    kind: Literal["codes"]
    bits: PositiveInt | None = None  #: codeword length; default: the fewest bits that distinguish the tokens
    codes: Codes = (
        GrayWalkConfig.model_construct()
    )  #: codebook: gray-walk, dense, hashed, blend, hybrid, identity, or a plugin's own

    def vector_file(self) -> Path | None:
        return self.codes.vector_file()

    def learns_vectors(self) -> bool:
        return self.codes.learns_vectors()


_Softmax: TypeAlias = FullOutputLayer | Sampled | NoiseContrastive | Hierarchical | Adaptive
_Output: TypeAlias = Annotated[_Softmax, Field(discriminator="kind")]
OutputLayer: TypeAlias = Annotated[_Output, BeforeValidator(kinded(), json_schema_input_type=str | _Output)]
_Any: TypeAlias = Annotated[_Softmax | ErrorCorrectingCodes, Field(discriminator="kind")]
AnyOutputLayer: TypeAlias = Annotated[_Any, BeforeValidator(kinded(), json_schema_input_type=str | _Any)]


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


def vector_files(vectors: Path | None, data: Path) -> Mapping[str, Path]:
    """Return a file of word vectors by its role, if there is one; raise DataError if it is missing."""
    if vectors is None:
        return {}
    path = data / vectors
    if not path.is_file():
        raise DataError(
            f"word vectors {path} were not found. Provide a file in word2vec (text or binary) or GloVe format, or "
            "leave `vectors` out to learn them from the training split."
        )
    return {"vectors": path}


def fits_on_validation(reading: Reading | None) -> bool:
    """Return whether the temperature or penalty of a reading is fitted on the validation split."""
    tempered = isinstance(reading, PriorTempered) and reading.temperature is None
    return tempered or (isinstance(reading, MaximumEntropy) and reading.penalty is None)


def inexact_laws(reading: Reading | None) -> Mapping[str, str]:
    """Return the contracts that many steps of maximum entropy break, with the reason, as `Config.exempt`."""
    if not isinstance(reading, MaximumEntropy) or reading.steps <= MAX_FLOAT32_STEPS:
        return {}
    laws = ("a_row_scores_alike_alone_and_in_a_batch", "the_score_is_the_sum_of_its_steps")
    return dict.fromkeys(laws, "many steps of maximum entropy amplify rounding errors where they do not converge")


def check_tied(output: _Softmax | ErrorCorrectingCodes) -> None:
    """Raise ValueError if an output layer has no matrix [V, H] that could be the embedding."""
    if isinstance(output, Adaptive | ErrorCorrectingCodes):
        raise ValueError(
            f"`output: {output.kind}` has no weight for each token and unit, so it cannot share the embedding. Leave "
            "`tied` out, or choose `output: full`, `sampled`, `nce` or `hierarchical`"
        )
