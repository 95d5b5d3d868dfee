"""The settings of output layers, dropout and training inputs."""

from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt, field_validator

from bench_core import Settings, kinded

Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Rate: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


# output layers


class Full(Settings):
    """A softmax over all tokens."""

    kind: Literal["full"] = "full"


class Sampled(Settings):
    """A softmax that is learnt over the target and sampled tokens alone."""

    kind: Literal["sampled"]
    samples: PositiveInt = 1000  #: S, which all targets of a batch share
    by: Literal["uniform", "unigram"] = "unigram"  #: what they are drawn from


class NoiseContrastive(Settings):
    """Scores that are learnt by telling targets from noise."""

    kind: Literal["nce"]
    samples: PositiveInt = 25  #: k, noise words for each target, drawn from the unigram distribution


class Hierarchical(Settings):
    """A softmax over classes of tokens, then one inside of the class."""

    kind: Literal["hierarchical"]
    order: Literal["random", "unigram"] = "unigram"  #: in which consecutive tokens share a class
    size: PositiveInt = 10  #: tokens of a class


class Adaptive(Settings):
    """A softmax over frequent tokens and clusters of rare ones, which get fewer numbers the rarer they are."""

    kind: Literal["adaptive"]
    cutoffs: tuple[PositiveInt, ...] = Field(min_length=1)  #: ranks by frequency at which clusters begin

    @field_validator("cutoffs")
    @classmethod
    def _rise(cls, cutoffs: tuple[int, ...]) -> tuple[int, ...]:
        if any(second <= first for first, second in pairwise(cutoffs)):
            raise ValueError(f"`cutoffs` rise from one to the next, such as [4000, 20000]; they are {list(cutoffs)}")
        return cutoffs


_Output: TypeAlias = Annotated[
    Full | Sampled | NoiseContrastive | Hierarchical | Adaptive, Field(discriminator="kind")
]
OutputLayer: TypeAlias = Annotated[_Output, BeforeValidator(kinded(), json_schema_input_type=str | _Output)]


# dropout


class Dropout(Settings):
    """Rates of variational dropout; one mask for a row, the same at every step."""

    input: Rate = 0.2  #: on what each layer reads
    hidden: Rate = 0.2  #: on what a layer hands over to its own next step
    output: Rate = 0.2  #: on what the output layer gets


def _rates(value: Any) -> Any:
    """Take a bare rate for all three."""
    return dict.fromkeys(("input", "hidden", "output"), value) if isinstance(value, int | float) else value


Rates: TypeAlias = Annotated[Dropout, BeforeValidator(_rates, json_schema_input_type=float | Dropout)]


# what is read in training


class Gold(Settings):
    """The gold tokens, whatever was predicted."""

    kind: Literal["gold"] = "gold"


class Mixing(Settings):
    """What every method that replaces gold has in common: how probably it does so."""

    tau_max: Share = 0.5  #: the probability of a replacement in the last epoch, from a 250th of it in the first
    constant: bool = False  #: whether it is `tau_max` from the first update on


class Softened(Mixing):
    """What methods have in common that feed a mix of embeddings."""

    temperature: PositiveFloat = 2.5  #: tau in the last epoch, from a 250th of it in the first
    reversed: bool = False  #: whether tau falls from there instead


class Scheduled(Mixing):
    """The most probable token (scheduled sampling)."""

    kind: Literal["scheduled"]


class Soft(Softened):
    """The mean of all embeddings, by their probabilities at a temperature (soft scheduled sampling)."""

    kind: Literal["soft"]


class CLVMS(Mixing):
    """The token that predicted and gold latents name together, each coming from one or the other."""

    kind: Literal["clvms"]
    factors: tuple[Share, ...] | None = None  #: of the probability, for each bit of ecoc-lm; 1 by default


class DLVMS(Softened):
    """A mix of embeddings by relaxed latents, some of them predicted with noise, the others gold."""

    kind: Literal["dlvms"]
    factors: tuple[Share, ...] | None = None  #: as for `clvms`
    best: PositiveInt | None = None  #: in the mix: by default 64 tokens of ecoc-lm, 10 classes of softmax-lm


class Flips(Mixing):
    """The tokens that the gold code names with one bit flipped, for each of the least certain bits."""

    kind: Literal["flips"]
    k: PositiveInt = 5  #: bits that are flipped


_Inputs: TypeAlias = Annotated[Gold | Scheduled | Soft | CLVMS | DLVMS | Flips, Field(discriminator="kind")]
Inputs: TypeAlias = Annotated[_Inputs, BeforeValidator(kinded(), json_schema_input_type=str | _Inputs)]
