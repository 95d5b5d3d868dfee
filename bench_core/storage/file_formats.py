"""Checks the content of files that may come from elsewhere against the dataclasses of what they hold."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from functools import cache
from io import BytesIO
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from bench_core.data import Facts, Outcome
from bench_core.probe import Finding

MOST_LINE = 2**26  #: bytes of a JSON line
MOST_DIGITS = 20  # of a whole number
LONG = re.compile(rb"\d{%d}" % (MOST_DIGITS + 1))
WORDS = ("nan", "inf", "-inf")  # stand for the numbers that JSON has not
AS_TOKENS = b'"actions": "tokens"', b'"actions": null'  # see `write_outcomes`; within a string, quotes are escaped

Plain: TypeAlias = float | int | str | bool | None
Real: TypeAlias = Annotated[float, BeforeValidator(lambda value: float(value) if value in WORDS else value)]
Digits: TypeAlias = Annotated[int, Field(ge=0, le=30)]


class TooLarge(ValueError):
    """A file has more bytes than it may, unpacked."""


class Open(BaseModel):
    """A mapping with these keys, and others that nothing depends on."""

    model_config = ConfigDict(extra="allow")


class Sample(Open):
    """What a report shows of an example."""

    id: int
    prompt: str = ""
    text: str
    reference: str = ""
    finished: bool = True


class Training(Open):
    """What a training tells of its model."""

    parameters: int
    updates: int
    about: dict[str, str] = {}


class Evaluation(Open):
    """One entry of a history."""

    __pydantic_extra__: dict[str, Plain]
    step: int
    epoch: int


class Measurement(BaseModel):
    """The score of a metric."""

    model_config = ConfigDict(extra="forbid")

    value: Real
    examples: int
    unit: str
    digits: Digits
    better: int
    signature: str
    interval: tuple[Real, Real] | None
    sample: str = ""


SHAPES: dict[str, Any] = {
    "facts.json": Facts, "training.json": Training, "history.jsonl": Evaluation, "samples.json": list[Sample],
    "outcomes.jsonl.gz": Outcome, "number.json": Measurement, "parts.jsonl.gz": Any, "finding.json": Finding,
}  # fmt: skip
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def parsed(shape: Any, text: bytes) -> Any:
    """Return what JSON holds as an instance of `shape`; raise ValueError that says what does not fit."""
    try:
        found = _adapter(shape).validate_json(text, strict=True, extra="forbid" if is_dataclass(shape) else None)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    if LONG.search(text):
        json.loads(text, parse_int=_whole)
    return found


def _whole(digits: str) -> int:
    """Return a whole number; raise ValueError if it is one that no float can hold, or nearly so."""
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


def check(name: str, content: bytes, most: int) -> int:
    """Check a file of an artifact by its name; return how many bytes it has, unpacked.

    Raises TooLarge where these are more than `most`, and ValueError that says what else is wrong.
    """
    if name == "draws.npy":
        _check_draws(content)
        return len(content)
    size = 0
    for text in _texts(name, content, most):
        parsed(SHAPES[name], text.replace(*AS_TOKENS) if name == "outcomes.jsonl.gz" else text)
        size += len(text)
    return size


def _texts(name: str, content: bytes, most: int) -> Iterable[bytes]:
    """Return the JSON texts of a file: its lines, if it has them."""
    if name.endswith(".gz"):
        return lines(content, most)
    return content.splitlines(keepends=True) if name.endswith(".jsonl") else [content]


def lines(content: bytes, most: int | None = None) -> Iterator[bytes]:
    """Yield the lines of packed text; raise TooLarge if it has more than `most` bytes, ValueError if damaged."""
    read = 0
    try:
        with gzip.open(BytesIO(content)) as file:
            while line := file.readline(MOST_LINE + 1):
                read += len(line)
                if len(line) > MOST_LINE:
                    raise ValueError(f"a line has more than {MOST_LINE:,} bytes")
                if most is not None and read > most:
                    raise TooLarge
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it is not whole gzip: {error}") from None


def _check_draws(content: bytes) -> None:
    import numpy as np

    from bench_core.storage.draws import DRAWS

    array = np.load(BytesIO(content), allow_pickle=False, max_header_size=1000)
    if array.dtype != np.float64 or array.shape not in ((DRAWS,), (0,)):
        raise ValueError(f"it holds {array.shape} {array.dtype}, not {DRAWS} numbers")
