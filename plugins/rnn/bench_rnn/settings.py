"""The settings of back-propagation through time."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from bench_core import Settings, kinded


def _steps(least: int) -> BeforeValidator:
    """Refuse a number below the least with words that name it, for it stands inside of another setting."""

    def check(value: Any) -> Any:
        if isinstance(value, int) and value < least:
            raise ValueError(f"`tau` counts recurrent steps and is at least {least}")
        return value

    return BeforeValidator(check)


def _share(value: Any) -> Any:
    if isinstance(value, int | float) and not 0 < value <= 1:
        raise ValueError("`pi` is a probability above 0, for gradients are divided by it, and at most 1")
    return value


class Full(Settings):
    """The gradient as it is."""

    kind: Literal["full"] = "full"


class Truncated(Settings):
    """Of the gradient, the terms that travel at most `tau` recurrent steps."""

    kind: Literal["truncated"]
    tau: Annotated[NonNegativeInt, _steps(0)]  #: recurrent steps that a gradient travels at most


class Detach(Settings):
    """No gradient passes from one piece of `tau` steps to the one before."""

    kind: Literal["detach"]
    tau: Annotated[PositiveInt, _steps(1)]  #: recurrent steps of a piece


class Randomized(Settings):
    """What travels a step is multiplied by 1 / pi with probability pi, else by 0; right on average."""

    kind: Literal["randomized"]
    pi: Annotated[float, Field(gt=0, le=1), BeforeValidator(_share)]  #: how likely a gradient goes on at a step


_BPTT: TypeAlias = Annotated[Full | Truncated | Detach | Randomized, Field(discriminator="kind")]
BPTT: TypeAlias = Annotated[_BPTT, BeforeValidator(kinded(), json_schema_input_type=str | _BPTT)]
