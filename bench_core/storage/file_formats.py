"""What the files of runs and artifacts look like, for those that come from elsewhere: nothing else is taken in."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import BytesIO
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

MOST_LINE = 2**26  #: bytes of a JSON line
DIGITS = 20  # of a whole number, at most
Unreal = Literal["nan", "inf", "-inf"]  # numbers that JSON has not
Plain = float | int | str | bool | None


class TooLarge(ValueError):
    """A file has more bytes than it may, unpacked."""


class Shape(BaseModel):
    """A mapping with just these keys."""

    model_config = ConfigDict(extra="forbid", strict=True)


class OpenShape(BaseModel):
    """A mapping with these keys, and others that nothing depends on."""

    model_config = ConfigDict(extra="allow", strict=True)


class Facts(Shape):
    """What a task knows."""

    vocabulary: list[str]
    counts: list[int] = []
    source_vocabulary: list[str] = []
    source_shape: list[int] = []
    source: str = "none"
    extras: dict[str, Any] = {}
    consecutive: bool = False
    language: str | None = None
    tokenized: bool = False
    files: dict[str, Any] = {}


class Hypothesis(Shape):
    """One output."""

    tokens: list[int]
    finished: bool
    log_prob: float | None = None
    actions: list[int] | Literal["tokens"] | None = None
    values: dict[str, Any] = {}


class Outcome(Shape):
    """All that is known of one example."""

    id: int
    prompt: str = ""
    references: list[str] = []
    hypotheses: list[Hypothesis] = []
    texts: list[str] = []
    target_log_prob: float | None = None
    target_tokens: int = 0
    target_words: int = 0
    weight: float = 1.0
    values: dict[str, Any] = {}


class Sample(OpenShape):
    """What a report shows of an example."""

    id: int
    prompt: str = ""
    text: str
    reference: str = ""
    finished: bool = True


class Number(Shape):
    """A metric of a cell."""

    value: float | Unreal | None
    examples: int
    unit: str
    digits: Annotated[int, Field(ge=0, le=30)]
    better: int
    signature: str
    interval: list[float | Unreal] | None
    reason: str = ""
    kind: str = ""
    sample: str = ""


class Premise(Shape):
    """What a statement presupposes."""

    text: str
    holds: bool


class Statement(Shape):
    """What is known of a model before anything is measured."""

    source: str
    says: str
    premises: list[Premise]
    bound: str
    metric: str
    promises: list[float] | None


class Finding(Shape):
    """What a probe found; of a cell, with the metrics that promises are about."""

    numbers: dict[str, float]
    statements: list[Statement]
    measured: dict[str, str] = {}


class Training(OpenShape):
    """What a training tells of its model."""

    parameters: int
    updates: int
    about: dict[str, str] = {}


class Evaluation(OpenShape):
    """One entry of a history."""

    __pydantic_extra__: dict[str, Plain]
    step: int
    epoch: int


class Axes(OpenShape):
    """The names of a cell."""

    task: str
    model: str
    decoder: str | None
    split: str
    hardware: str
    seed: int


class Cell(Shape):
    """What came of one cell."""

    cell: Axes
    status: Literal["done", "failed", "not run"]
    reason: str
    numbers: dict[str, Number]
    artifacts: dict[str, str]
    probes: dict[str, Finding] = {}
    environments: list[int] = []


class CellSample(Sample):
    """An output, and the cell that it is of."""

    cell: dict[str, str | int | None]


class Distribution(Shape):
    """How often a metric takes each value."""

    cell: Axes
    metric: str
    counts: list[tuple[float | str, int]]
    reason: str


class Environment(OpenShape):
    """What cells were computed with."""

    __pydantic_extra__: dict[str, Plain]
    libraries: dict[str, str] = {}
    code: dict[str, str] = {}


class TaskInfo(OpenShape):
    """What a run tells of a task."""

    corpus: str | None = None
    vocabulary: int = 0
    notice: str | None = None
    entropy: float | None = None
    embedded: bool | None = None
    statistics: dict[str, dict[str, float | int | None]] = {}
    status: str = ""
    reason: str = ""


class ModelInfo(OpenShape):
    """What a run tells of a model."""

    parameters: int | None = None


class Files(Shape):
    """The digests of what tasks and models were made of."""

    tasks: dict[str, dict[str, Any]] = {}
    models: dict[str, dict[str, Any]] = {}


class Info(OpenShape):
    """What a run tells of itself."""

    suite: str
    profile: str | None
    label: str
    title: str
    source: str
    changes: list[str] = []
    environment: Environment = Environment()
    environments: list[Environment] = []
    read: Files = Files()
    tasks: dict[str, TaskInfo]
    models: dict[str, ModelInfo]
    samples: list[CellSample]


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


def _validate(adapter: TypeAdapter[Any], text: bytes) -> None:
    adapter.validate_json(text)
    json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int:
    """Return a whole number; raise ValueError if it is one that no float can hold, or nearly so."""
    if len(digits.lstrip("-")) > DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


def _one(shape: Any, content: bytes, most: int) -> int:
    _validate(TypeAdapter(shape), content)
    return len(content)


def _each(shape: Any, content: bytes, most: int) -> int:
    adapter = TypeAdapter(shape)
    for line in content.splitlines():
        _validate(adapter, line)
    return len(content)


def _packed(shape: Any, content: bytes, most: int) -> int:
    adapter, size = TypeAdapter(shape), 0
    for line in lines(content, most):
        _validate(adapter, line)
        size += len(line)
    return size


def _draws(content: bytes, most: int) -> int:
    import numpy as np

    from bench_core.storage.draws import DRAWS

    array = np.load(BytesIO(content), allow_pickle=False, max_header_size=1000)
    if array.dtype != np.float64 or array.shape not in ((DRAWS,), (0,)):
        raise ValueError(f"it holds {array.shape} {array.dtype}, not {DRAWS} numbers")
    return len(content)


def _all_draws(content: bytes, most: int) -> int:
    from bench_core.storage.draws import read_draws

    read_draws(content)
    return len(content)


def _text(content: bytes, most: int) -> int:
    content.decode()
    return len(content)


#: By name: what checks a file, which must hold no more than so many bytes unpacked, and returns how many it does.
SHAPES: Mapping[str, Callable[[bytes, int], int]] = {
    "facts.json": partial(_one, Facts),
    "training.json": partial(_one, Training),
    "history.jsonl": partial(_each, Evaluation),
    "outcomes.jsonl.gz": partial(_packed, Outcome),
    "samples.json": partial(_one, list[Sample]),
    "number.json": partial(_one, Number),
    "parts.jsonl.gz": partial(_packed, Any),
    "draws.npy": _draws,
    "draws.safetensors": _all_draws,
    "finding.json": partial(_one, Finding),
    "suite.yaml": _text,
    "run.json": partial(_one, Info),
    "cells.jsonl": partial(_each, Cell),
    "published.json": partial(_one, dict[str, dict[str, Any]]),
    "costs.csv": _text,
    "distributions.jsonl": partial(_each, Distribution),
    "permutations.json": partial(_one, dict[str, dict[str, float]]),
    "log": _text,
}


def check(name: str, content: bytes, most: int) -> int:
    """Check a file by its name, which must have no more than `most` bytes unpacked; return how many it has.

    Raises TooLarge where it has more, and ValueError that says what else is wrong.
    """
    try:
        return SHAPES[name](content, most)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
