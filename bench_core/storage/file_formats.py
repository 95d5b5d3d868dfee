"""Validates JSON files against the data classes that they hold."""

import json
import re
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    ValidationError,
)

from bench_core.data import TaskInfo
from bench_core.metric import Scale
from bench_core.probe import Finding

MAX_DIGITS = 20  # limit for integers
LONG_NUMBER = re.compile(rb"\d{%d}" % (MAX_DIGITS + 1))
NON_FINITE = ("nan", "inf", "-inf")  # words for numbers that JSON cannot represent

T = TypeVar("T")

Plain: TypeAlias = float | int | str | bool | None
Real: TypeAlias = Annotated[float, BeforeValidator(lambda value: float(value) if value in NON_FINITE else value)]
Digits: TypeAlias = Annotated[int, Field(ge=0, le=30)]


class Open(BaseModel):
    """A mapping that allows additional keys."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class SampleOutput(Open):
    """A sample output for reports."""

    id: int
    prompt: str = ""
    text: str
    reference: str = ""
    finished: bool = True


class TrainingSummary(Open):
    """The summary of a training run."""

    parameters: int
    updates: int
    about: dict[str, str] = {}


class HistoryEntry(Open):
    """An entry of a training history."""

    __pydantic_extra__: dict[str, Plain]
    step: int
    epoch: int


class Measurement(BaseModel):
    """The score of a metric."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    value: Real
    examples: int
    label: str
    unit: str
    digits: Digits
    better: int
    signature: str
    sample: str
    scale: Scale
    units: NonNegativeInt
    block: PositiveInt
    error: Real
    bounds: list[Real] | None = None
    ceiling: Real | None = None


#: Name of a JSON file of artifacts -> its schema.
SHAPES: dict[str, Any] = {
    "task_info.json": TaskInfo, "training.json": TrainingSummary, "samples.json": list[SampleOutput],
    "number.json": Measurement, "finding.json": Finding, "digests.json": dict[str, str],
}  # fmt: skip
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def parsed(shape: type[T], text: bytes) -> T:
    """Parse JSON as an instance of `shape`; raise ValueError with the first problem."""
    try:
        instance: T = _adapter(shape).validate_json(
            text, strict=True, extra="forbid" if is_dataclass(shape) else None
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    if LONG_NUMBER.search(text):
        json.loads(text, parse_int=_whole)
    return instance


def _whole(digits: str) -> int:
    """Parse an integer; raise ValueError if it has too many digits."""
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)
