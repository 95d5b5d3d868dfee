"""Examples of a task: as its author's code yields them, and as tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from bench_core import STOP, PluginError, Purpose, Source, Split
from bench_text.encoder import Encoder
from bench_text.ragged import Numbers, Ragged

ALL = frozenset(Purpose)
TEXTS = (Source.TOKENS, Source.BAG)
DIMENSIONS = {Source.VECTOR: 1, Source.GRID: 2, Source.IMAGE: 3}
SHAPES = {Source.VECTOR: "(D,)", Source.GRID: "(S, D)", Source.IMAGE: "(3, H, W)"}
FORMS = "(source, target), (source, target, references) or (source, target, references, weight)"


class Example(NamedTuple):
    """A target to generate from a source: `Example("ein Satz", "a sentence", weight=2.0)`."""

    source: Any  #: a text; numbers [D] of a VECTOR, [S, D] of a GRID or [3, H, W] of an IMAGE; None without a source
    target: str  #: the text to train on and to score
    references: Sequence[str] = ()  #: texts to compare outputs with; default: the target
    weight: float = 1.0  #: weight in losses and scores
    id: int | None = None  #: unique in its split; default: its index, from 0
    source_text: str | None = None  #: the source in reports; default: the source, if it is a text
    purposes: Set[Purpose] = ALL  #: what it is used for; e.g. not DECODE for further targets of a source
    extras: Mapping[str, Sequence[int]] = {}  #: integers for `Batch.extras`, padded with -1
    raw: str | None = None  #: the target in the original corpus, for bits per byte; default: the target
    prompt: str = ""  #: a text before the target that is given to the model
    name: str | None = None  #: its name in the user's data, unique in its split
    group: str | None = None  #: shared by dependent examples, such as sentences of a document


def as_examples(yielded: Iterable[Any], kind: Source, has_prefix: bool, by: str, split: Split) -> list[Example]:
    """Convert yielded tuples to Examples with ids; raise PluginError for an invalid tuple."""
    ids, names, examples = set[int](), set[str](), list[Example]()
    for index, each in enumerate(yielded):
        try:
            example = _example(each, index, kind, has_prefix)
            if example.id in ids:
                raise ValueError(f"The id {example.id} is used twice. Give each example its own id.")
            if example.name in names:
                raise ValueError(f"The name {example.name!r} is used twice. Give each example its own name.")
        except ValueError as error:
            raise PluginError(f"{by} yielded {_excerpt(each)} as example {index} of {split}. {error}") from None
        ids.add(example.id or 0)
        names.update([] if example.name is None else [example.name])
        examples.append(example)
    return examples


def _example(value: Any, index: int, kind: Source, has_prefix: bool) -> Example:
    """Convert a tuple to an Example, whose id is `index` by default; raise ValueError if it is invalid."""
    if not isinstance(value, tuple) or not 2 <= len(value) <= len(Example._fields):
        raise ValueError(f"It must yield {FORMS}.")
    example = Example(*value)
    _check(example, kind)
    if example.prompt and has_prefix:
        raise ValueError("It has a prompt, but the task sets `prefix`. Use only one of them.")
    return example._replace(id=index) if example.id is None else example


def _check(example: Example, kind: Source) -> None:
    """Raise ValueError if an example is invalid in a task whose sources have this `kind`."""
    if not isinstance(example.target, str):
        raise ValueError(f"Its target must be a text, not {example.target!r}.")
    if kind in TEXTS and not isinstance(example.source, str):
        raise ValueError(f"Its source must be a text, not {example.source!r}.")
    if kind is Source.NONE and example.source is not None:
        raise ValueError(
            "Its source must be None because its Config declares none. For texts, declare `source = Source.TOKENS`."
        )
    is_list = not isinstance(example.references, str) and isinstance(example.references, Iterable)
    if not is_list or not all(isinstance(text, str) for text in example.references):
        raise ValueError(f"Its references must be a list of texts, not {example.references!r}.")
    for name in ("prompt", "name", "group"):
        if not isinstance(getattr(example, name), str | (type(None) if name != "prompt" else str)):
            raise ValueError(f"Its {name} must be a text, not {getattr(example, name)!r}.")
    if not isinstance(example.weight, int | float) or not example.weight >= 0 or not isfinite(example.weight):
        raise ValueError(f"Its weight must be a number of at least 0, not {example.weight!r}.")


def numbers(sources: Sequence[Any], kind: Source) -> Numbers:
    """Stack vectors, grids or images as float32 [R, *]; raise PluginError if their shapes differ."""
    try:
        values = np.array(sources, np.float32)
    except (ValueError, TypeError) as error:
        raise PluginError(f"sources are not numbers of the same shape: {error}.") from None
    if not np.isfinite(values).all():
        raise PluginError("sources contain NaN or infinity.")
    if values.ndim != DIMENSIONS[kind] + 1:
        raise PluginError(f"sources have shape {values.shape[1:]}; {kind.name} needs the shape {SHAPES[kind]}.")
    return values


def _excerpt(value: Any) -> str:
    """Return an example for a message, truncated to 80 characters."""
    text = repr(tuple(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 80 else f"{text[:80]}..."


@dataclass(frozen=True)
class EncodedExamples:
    """The R examples of a split as tokens without EOS, during the preparation of a task."""

    examples: Sequence[Example]  # [R] as yielded by the task
    encoder: Encoder  # encodes targets
    target: Ragged  # [R]
    source_encoder: Encoder | None = None  # encodes sources that are texts
    source: Ragged | Numbers | None = None  # tokens [R], or numbers, float32 [R, *]
    extras: Mapping[str, Ragged] = field(default_factory=dict)  # [R] each, the integers of `Batch.extras`
    prompt: Ragged | None = None  # [R] tokens before the target; None without prompts

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def longer(self) -> Numbers:
        """The number of tokens on the longer side, source or prompt plus target, int64 [R]."""
        source = self.source.lengths if isinstance(self.source, Ragged) else 0
        prompt = self.prompt.lengths if self.prompt else 0
        return np.maximum(self.target.lengths + prompt, source)

    @property
    def counts(self) -> list[int]:
        """The number of occurrences of each target token, including EOS, in the training examples."""
        rows = self.target if self.trains.all() else self.target.take(np.flatnonzero(self.trains))
        counts = np.bincount(rows.tokens, minlength=len(self.encoder.vocabulary))
        counts[STOP] = len(rows)
        return [int(count) for count in counts]

    @cached_property
    def trains(self) -> Numbers:
        """Whether each example is used in training, bool [R]."""
        return np.array([each.purposes is ALL or Purpose.TRAIN in each.purposes for each in self.examples], bool)

    def renumbered(self) -> EncodedExamples:
        """Return the examples with ids 0, 1, ..., R - 1."""
        return replace(self, examples=[example._replace(id=row) for row, example in enumerate(self.examples)])

    def take(self, rows: Numbers) -> EncodedExamples:
        """Return the examples at these indices [M]."""
        if len(rows) == len(self) and (rows == np.arange(len(self))).all():
            return self
        source = self.source.take(rows) if isinstance(self.source, Ragged) else self.source
        return replace(
            self,
            examples=[self.examples[row] for row in rows],
            target=self.target.take(rows),
            source=source[rows] if isinstance(source, np.ndarray) else source,
            extras={name: extra.take(rows) for name, extra in self.extras.items()},
            prompt=self.prompt.take(rows) if self.prompt else None,
        )
