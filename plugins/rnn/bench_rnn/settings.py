"""The settings of back-propagation through time."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from bench_core import Settings, kinded


def _at_least(minimum: int) -> BeforeValidator:
    """Return a validator whose message names `tau`, because `tau` is nested in another setting."""

    def check(value: Any) -> Any:
        if isinstance(value, int) and value < minimum:
            raise ValueError(f"`tau` must be a number of recurrent steps, at least {minimum}")
        return value

    return BeforeValidator(check)


def _probability(value: Any) -> Any:
    if isinstance(value, int | float) and not 0 < value <= 1:
        raise ValueError("`pi` must be a probability above 0, because gradients are divided by it, and at most 1")
    return value


class FullOutput(Settings):
    """The full gradient."""

    kind: Literal["full"] = "full"


class Truncated(Settings):
    """The terms of the gradient that travel at most `tau` recurrent steps."""

    kind: Literal["truncated"]
    tau: Annotated[NonNegativeInt, _at_least(0)]  #: maximum number of recurrent steps that a gradient travels


class Detach(Settings):
    """The gradient without paths between chunks of `tau` steps."""

    kind: Literal["detach"]
    tau: Annotated[PositiveInt, _at_least(1)]  #: recurrent steps per chunk


class Randomized(Settings):
    """An unbiased estimate of the gradient: each step multiplies it by 1 / pi with probability pi, else by 0."""

    kind: Literal["randomized"]
    pi: Annotated[float, Field(gt=0, le=1), BeforeValidator(_probability)]  #: probability of passing the gradient on


_BPTT: TypeAlias = Annotated[FullOutput | Truncated | Detach | Randomized, Field(discriminator="kind")]
BPTT: TypeAlias = Annotated[_BPTT, BeforeValidator(kinded(), json_schema_input_type=str | _BPTT)]
