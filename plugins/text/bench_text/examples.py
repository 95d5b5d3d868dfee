"""Examples of a task, as its author yields them, and as tokens."""

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
DIMENSIONS = {Source.VECTOR: 1, Source.GRID: 2}
SHAPES = {Source.VECTOR: "(D,)", Source.GRID: "(S, D)"}
FORMS = "(source, target), (source, target, references) or (source, target, references, weight)"


class Example(NamedTuple):
    """What is to be generated, and from what: `Example("ein Satz", "a sentence", weight=2.0)`."""

    source: Any  #: a text; of a VECTOR its numbers [D], of a GRID [S, D]; None without a source
    target: str  #: the text to learn and to score
    references: Sequence[str] = ()  #: texts that outputs are compared with; by default the target
    weight: float = 1.0  #: of its loss and of its scores
    id: int | None = None  #: unique in its split; by default its number there, from 0
    source_text: str | None = None  #: the source in reports; by default the source, if that is a text
    purposes: Set[Purpose] = ALL  #: what it is used for, such as not DECODE for further targets of one source
    extras: Mapping[str, Sequence[int]] = {}  #: integers for `Batch.extras`, padded with -1
    raw: str | None = None  #: the target as the corpus has it, for bits per byte; by default the target
    prompt: str = ""  #: a text before the target, which is given, not generated
    name: str | None = None  #: what the user's data call it, unique in its split
    group: str | None = None  #: shared by examples that were not drawn one by one, such as sentences of a document


def numbered(yielded: Iterable[Any], kind: Source, has_prefix: bool, by: str, split: Split) -> list[Example]:
    """Return what an author has yielded as Examples with ids; raise PluginError that says what is wrong with one."""
    ids, names, found = set[int](), set[str](), list[Example]()
    for place, each in enumerate(yielded):
        try:
            example = _example(each, place, kind, has_prefix)
            if example.id in ids:
                raise ValueError(f"There is an example {example.id} already: give each its own id.")
            if example.name in names:
                raise ValueError(f"There is an example called {example.name!r} already: give each its own name.")
        except ValueError as error:
            raise PluginError(f"{by} yielded {_shown(each)} as example {place} of {split}. {error}") from None
        ids.add(example.id or 0)
        names.update([] if example.name is None else [example.name])
        found.append(example)
    return found


def _example(found: Any, place: int, kind: Source, has_prefix: bool) -> Example:
    """Return a tuple as an Example with an id, by default its place; raise ValueError if it is wrong."""
    if not isinstance(found, tuple) or not 2 <= len(found) <= len(Example._fields):
        raise ValueError(f"It must yield {FORMS}.")
    example = Example(*found)
    _check(example, kind)
    if example.prompt and has_prefix:
        raise ValueError("It has a prompt, and `prefix` says how many tokens are given: only one of them may.")
    return example._replace(id=place) if example.id is None else example


def _check(example: Example, kind: Source) -> None:
    """Raise ValueError that says what is wrong with an example of a task whose source is of a `kind`."""
    if not isinstance(example.target, str):
        raise ValueError(f"Its target must be a text, not {example.target!r}.")
    if kind in TEXTS and not isinstance(example.source, str):
        raise ValueError(f"Its source must be a text, not {example.source!r}.")
    if kind is Source.NONE and example.source is not None:
        raise ValueError(
            "Its source must be None, as its Config declares none. Otherwise declare `source = Source.TOKENS`."
        )
    listed = not isinstance(example.references, str) and isinstance(example.references, Iterable)
    if not listed or not all(isinstance(text, str) for text in example.references):
        raise ValueError(f"Its references must be a list of texts, not {example.references!r}.")
    for name in ("prompt", "name", "group"):
        if not isinstance(getattr(example, name), str | (type(None) if name != "prompt" else str)):
            raise ValueError(f"Its {name} must be a text, not {getattr(example, name)!r}.")
    if not isinstance(example.weight, int | float) or not example.weight >= 0 or not isfinite(example.weight):
        raise ValueError(f"Its weight must be a number from 0, not {example.weight!r}.")


def numbers(sources: Sequence[Any], kind: Source) -> Numbers:
    """Return vectors or grids, float32 [R, D] or [R, S, D]; raise PluginError if they are none of one shape."""
    try:
        found = np.array(sources, np.float32)
    except (ValueError, TypeError) as error:
        raise PluginError(f"sources are not numbers of one shape: {error}.") from None
    if not np.isfinite(found).all():
        raise PluginError("sources have NaN or infinity among their numbers.")
    if found.ndim != DIMENSIONS[kind] + 1:
        raise PluginError(f"sources have shape {found.shape[1:]}; a {kind.name} has shape {SHAPES[kind]}.")
    return found


def _shown(found: Any) -> str:
    """Return an example as messages show it."""
    text = repr(tuple(found) if isinstance(found, tuple) else found)
    return text if len(text) <= 80 else f"{text[:80]}..."


@dataclass(frozen=True)
class EncodedExamples:
    """The R examples of a split as tokens, without stop, while a task prepares."""

    examples: Sequence[Example]  # [R] as they were yielded
    encoder: Encoder  # of targets
    target: Ragged  # [R]
    source_encoder: Encoder | None = None  # of sources, if these are texts
    source: Ragged | Numbers | None = None  # tokens [R], or numbers, float32 [R, D] or [R, S, D]
    extras: Mapping[str, Ragged] = field(default_factory=dict)  # [R] each, from -1
    prompt: Ragged | None = None  # [R] tokens before the target, if some are given

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def longer(self) -> Numbers:
        """The number of tokens of each example's longer side, prompt and target being one, int64 [R]."""
        source = self.source.lengths if isinstance(self.source, Ragged) else 0
        prompt = self.prompt.lengths if self.prompt else 0
        return np.maximum(self.target.lengths + prompt, source)

    @property
    def counts(self) -> list[int]:
        """How often each target token, stop included, occurs in the examples to train on."""
        rows = self.target if self.trains.all() else self.target.take(np.flatnonzero(self.trains))
        counts = np.bincount(rows.tokens, minlength=len(self.encoder.vocabulary))
        counts[STOP] = len(rows)
        return [int(count) for count in counts]

    @cached_property
    def trains(self) -> Numbers:
        """Whether each example is one to train on, bool [R]."""
        return np.array([one.purposes is ALL or Purpose.TRAIN in one.purposes for one in self.examples], bool)

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
