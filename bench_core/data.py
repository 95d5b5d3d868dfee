"""The data classes that parts exchange: Batch, TaskInfo, Hypothesis, Outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bench_core.host_copies import knows_host_copy, on_host, remember, to_device
from bench_core.tensor_rows import Rows

if TYPE_CHECKING:
    import torch
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


def joined(extras: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the extras of a task from those of its splits: mappings together, and of other values the last."""
    found: dict[str, Any] = {}
    for one in extras:
        for name, value in one.items():
            both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
            found[name] = {**found[name], **value} if both else value
    return found


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

    @cached_property
    def real(self) -> Tensor:
        """Return the places [M] of the real tokens in `gold.flatten()`, row by row.

        They are computed in main memory, as an accelerator would keep the CPU waiting to count them.
        """
        mask = self.on_host.mask
        return to_device(mask.flatten().nonzero()[:, 0], self.ids.device)

    def at_real(self, values: Tensor) -> Tensor:
        """Return `values[mask]` [M, *], for the real tokens of values [N, T, *], without waiting for a device."""
        found = values.flatten(0, 1).index_select(0, self.real)
        if values.device.type != "cpu" and knows_host_copy(values):
            remember(found, on_host(values).flatten(0, 1).index_select(0, on_host(self.real)))
        return found

    @cached_property
    def on_host(self) -> Self:
        """Return the same batch in main memory, to read its numbers: lengths, or how many tokens are real.

        That is the one from which it was moved by `to`, so that nobody waits for the accelerator.
        """
        return self.change(on_host)

    def to(self, device: torch.device | str, copy: bool = False) -> Self:
        """Return the batch on a device, from where `on_host` leads back.

        With `copy`, all tensors are copies, so that the part which is given them may change them.
        """
        return self.change(lambda tensor: to_device(tensor, device, copy))


@dataclass(frozen=True)
class Prompt:
    """An example as text, for systems that read no tokens of a task."""

    id: int  # of the example, in its split
    text: str  # the source, or else the prefix; empty where there is neither
    name: str = ""  # of the example in its corpus, if it has one
    separator: str = ""  # what stands between it and its target


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence; a system with tokens of its own gives its `text`, and no `tokens` of the task."""

    tokens: list[int]  # without stop
    finished: bool  # stopped by itself, not by a limit
    log_prob: float | None = None  # the model's own, in nats, stop included; None if it has none
    actions: list[int] | None = None  # the choices that led here, without stop
    values: Mapping[str, float] = field(default_factory=dict)  # what only the model knows
    text: str | None = None  # by default that of the tokens; not stored, as outcomes have it
    token_count: int | None = None  # where `tokens` are not known: how many there are, stop included; -1: unknown

    @property
    def length(self) -> int | None:
        """Return the number of its tokens, stop included; None if its system did not say."""
        if self.token_count is None:
            return len(self.tokens) + self.finished
        return None if self.token_count < 0 else self.token_count


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
    target_words: int | None = 0  # white-space separated, stop included; None if tokens do not spell the reference
    target_bytes: int | None = None  # of the raw text that the reference stands for; None if tokens do not spell it
    target_characters: int | None = None  # likewise
    weight: float = 1.0  # of the example
    values: Mapping[str, float] = field(default_factory=dict)  # of `Scores`, by name
    group: int | None = None  # shared by examples that were not drawn independently, such as captions of an image
    written: str | None = None  # the target as its own tokens write it; None where that is the first reference
