"""The data classes that parts exchange: Batch, TaskInfo, Hypothesis, Outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.tensor_rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

STOP = 0  #: the one token, and the one action, that the core knows


class Source(StrEnum):
    """What a target is conditioned on."""

    NONE = "none"  # at most on a prefix
    TOKENS = "tokens"  # [N, S] ids
    BAG = "bag"  # [N, S] ids without an order
    VECTOR = "vector"  # [N, D]
    GRID = "grid"  # [N, S, D]


class Kind(StrEnum):
    """How a number relates to log p."""

    EXACT = "exact"  # log p itself
    BOUND = "bound"  # not above it
    ESTIMATE = "estimate"  # by sampling


class Purpose(StrEnum):
    """What batches are for."""

    TRAIN = "train"  # for updates of weights
    SCORE = "score"  # for log p of targets
    DECODE = "decode"  # for outputs, each source or prefix once


@dataclass(frozen=True)
class TaskInfo:
    """What a task tells models about its training data: lists and numbers, stored as JSON."""

    vocabulary: Sequence[str]  # target tokens; the first is stop
    counts: Sequence[int] = ()  # of each in the training split
    source_vocabulary: Sequence[str] = ()  # tokens of a source of TOKENS or of a BAG
    source_shape: tuple[int, ...] = ()  # (D,) of a VECTOR, (S, D) of a GRID
    extras: Mapping[str, Any] = field(default_factory=dict)  # such as the training words
    source: Source = Source.NONE  # what a target is made from; filled in by the core, as the task's Config says
    consecutive: bool = False  # whether examples continue each other, as the windows of a stream do
    language: str | None = None  # of targets, by its ISO 639 code; filled in by the core, as the task's Config says
    tokenized: bool = False  # whether spaces stand between all tokens of references; likewise
    files: Mapping[str, Path] = field(default_factory=dict)  # those of the model's Config; given to it, never stored


@dataclass(frozen=True)
class Batch(Rows):
    """N examples: openings of equal length, targets padded with stop."""

    ids: Tensor  # [N] each example's number in its split
    opening: Tensor  # [N, P] stop, then the prefix; in a window of a stream, the token before it
    gold: Tensor  # [N, T] target, then stop; in a window of a stream, its tokens
    length: Tensor  # [N] real tokens of `gold`
    source: Tensor | None = None  # see Source
    source_length: Tensor | None = None  # [N] real tokens of `source`
    extras: Mapping[str, Tensor] = field(default_factory=dict)  # what task and model agree on
    continues: bool = False  # whether each row goes on where the same row of the last batch ended

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def inputs(self) -> Tensor:
        """Return the input of a left-to-right model [N, P + T - 1], whose last T outputs predict `gold`."""
        import torch

        return torch.cat([self.opening, self.gold[:, :-1]], 1)

    @property
    def mask(self) -> Tensor:
        """Return which tokens of `gold` are real [N, T]."""
        return self.gold.new_ones(1, self.gold.shape[1]).cumsum(1) <= self.length[:, None]


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence."""

    tokens: list[int]  # without stop
    finished: bool  # stopped by itself, not by a limit
    log_prob: float | None = None  # the model's own, in nats, stop included; None if it has none
    actions: list[int] | None = None  # the choices that led here, without stop
    values: Mapping[str, float] = field(default_factory=dict)  # what only the model knows


@dataclass(frozen=True)
class Outcome:
    """Everything that metrics may see of one example; plain data."""

    id: int  # of the example, in its split
    prompt: str = ""  # the source, or else the prefix, as text
    references: list[str] = field(default_factory=list)  # accepted texts
    hypotheses: list[Hypothesis] = field(default_factory=list)  # best first
    texts: list[str] = field(default_factory=list)  # of the hypotheses
    target_log_prob: float | None = None  # from a Scorer, in nats
    target_tokens: int = 0  # of the reference, stop included
    target_words: int = 0  # likewise, white-space separated, stop included
    target_bytes: int | None = None  # of the raw text that the reference stands for; None if tokens do not spell it
    target_characters: int | None = None  # likewise
    weight: float = 1.0  # of the example
    values: Mapping[str, float] = field(default_factory=dict)  # of `Scores`, by name
    group: int | None = None  # shared by examples that were not drawn independently, such as captions of an image
