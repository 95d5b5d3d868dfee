"""Settings of dropout and training inputs."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt

from bench_core import Settings, kinded

Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Rate: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


# dropout


class Dropout(Settings):
    """Rates of variational dropout: one mask per row, the same at every step."""

    input: Rate = 0.2  #: rate on the inputs of each layer
    hidden: Rate = 0.2  #: rate on the recurrent connection of each layer
    output: Rate = 0.2  #: rate on the input of the output layer


def _rates(value: Any) -> Any:
    """Use a single number for all three rates."""
    return dict.fromkeys(("input", "hidden", "output"), value) if isinstance(value, int | float) else value


Rates: TypeAlias = Annotated[Dropout, BeforeValidator(_rates, json_schema_input_type=float | Dropout)]


# training inputs


class Gold(Settings):
    """Gold tokens only (teacher forcing)."""

    kind: Literal["gold"] = "gold"


class Mixing(Settings):
    """Settings shared by all methods that replace gold tokens."""

    tau_max: Share = 0.5  #: probability of a replacement in the last epoch; it starts at 1/250 of this
    constant: bool = False  #: use `tau_max` from the first update on


class Softened(Mixing):
    """Settings shared by methods that mix embeddings."""

    temperature: PositiveFloat = 2.5  #: tau in the last epoch; it starts at 1/250 of this
    reversed: bool = False  #: let tau fall instead


class Scheduled(Mixing):
    """The most probable or a sampled token (scheduled sampling)."""

    kind: Literal["scheduled"]
    choice: Literal["argmax", "sample"] = "argmax"  #: most probable token, or a sample of the token distribution


class Soft(Softened):
    """The mean of all embeddings, weighted by their probabilities at a temperature (soft scheduled sampling)."""

    kind: Literal["soft"]


class CLVMS(Mixing):
    """The token given by a mixture of predicted and gold latents."""

    kind: Literal["clvms"]
    factors: Literal["falling"] | tuple[Share, ...] | None = (
        None  #: factor of the probability for each bit of ecoc-lm; `falling`: from 1 to 1 / bits; default: 1
    )


class DLVMS(Softened):
    """A mixture of embeddings, weighted by relaxed latents; some are predicted with noise, the others are gold."""

    kind: Literal["dlvms"]
    factors: Literal["falling"] | tuple[Share, ...] | None = None  #: as for `clvms`
    best: PositiveInt | None = None  #: size of the mixture; default: 64 tokens of ecoc-lm, 10 classes of softmax-lm


class Flips(Mixing):
    """The tokens given by the gold code with one bit flipped, for each of the least certain bits."""

    kind: Literal["flips"]
    k: PositiveInt = 5  #: number of bits to flip, one at a time


_Inputs: TypeAlias = Annotated[Gold | Scheduled | Soft | CLVMS | DLVMS | Flips, Field(discriminator="kind")]
Inputs: TypeAlias = Annotated[_Inputs, BeforeValidator(kinded(), json_schema_input_type=str | _Inputs)]
