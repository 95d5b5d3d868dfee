"""Data classes exchanged by parts: Batch, TaskInfo, Hypothesis, Prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bench_core.former_names import warn_of_former
from bench_core.host_copies import knows_host_copy, on_host, remember, to_device
from bench_core.tensor_rows import Rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor

STOP = 0  #: EOS, the only token id and action with a fixed meaning


class Source(StrEnum):
    """The kind of source that a target is conditioned on."""

    NONE = "none"  # no source, at most a prompt
    TOKENS = "tokens"  # [N, S] ids
    BAG = "bag"  # [N, S] ids, unordered
    VECTOR = "vector"  # [N, D]
    GRID = "grid"  # [N, S, D]
    IMAGE = "image"  # [N, 3, H, W] from 0 to 1


class Kind(StrEnum):
    """The relation of a number to log p."""

    EXACT = "exact"
    BOUND = "bound"  # lower bound
    ESTIMATE = "estimate"  # Monte Carlo estimate


class Purpose(StrEnum):
    """The purpose for which batches are read."""

    TRAIN = "train"  # update weights
    SCORE = "score"  # compute log p of targets
    DECODE = "decode"  # generate outputs, once per distinct source or prompt


@dataclass(frozen=True)
class TaskInfo:
    """Information about a task's training data for models: lists and numbers, stored as JSON.

    The core sets `source`, `language` and `tokenized` from the task's Config.
    """

    vocabulary: Sequence[str]  # target tokens; the first is EOS
    counts: Sequence[int] = ()  # frequencies of the target tokens in the training split
    source_vocabulary: Sequence[str] = ()  # source tokens, for TOKENS and BAG
    source_shape: tuple[int, ...] = ()  # (D,) for VECTOR, (S, D) for GRID, (3, H, W) for IMAGE
    extras: Mapping[str, Any] = field(default_factory=dict)  # other data, such as the training words
    source: Source = Source.NONE  # what targets are conditioned on
    consecutive: bool = False  # whether each example continues the previous one, like windows of a stream
    language: str | None = None  # ISO 639 code of the target language
    tokenized: bool = False  # whether references have spaces between all tokens
    files: Mapping[str, Path] = field(default_factory=dict)  # `ModelConfig.files`, passed to models and never stored


def joined(extras: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the extras of a task's splits: mappings are merged; for other values, the last split wins."""
    merged: dict[str, Any] = {}
    for mapping in extras:
        for name, value in mapping.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
            merged[name] = {**merged[name], **value} if both else value
    return merged


@dataclass(frozen=True)
class Batch(Rows):
    """N examples with prompts of equal length and targets padded with EOS."""

    ids: Tensor  # [N] index of each example in its split
    prompt: Tensor  # [N, P] EOS, then the prompt; in a window of a stream, the preceding token
    gold: Tensor  # [N, T] target, then EOS; in a window of a stream, the window's tokens
    length: Tensor  # [N] number of non-padding tokens in `gold`
    source: Tensor | None = None  # see Source
    source_length: Tensor | None = None  # [N] number of non-padding tokens in `source`
    extras: Mapping[str, Tensor] = field(default_factory=dict)  # other tensors agreed between task and model
    continues: bool = False  # whether each row continues the same row of the previous batch

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def opening(self) -> Tensor:
        """Return `prompt` under its former name."""
        warn_of_former("Batch.opening", "prompt")
        return self.prompt

    @property
    def inputs(self) -> Tensor:
        """Return the inputs of a left-to-right model [N, P + T - 1]; its last T outputs predict `gold`."""
        import torch

        return torch.cat([self.prompt, self.gold[:, :-1]], 1)

    @property
    def mask(self) -> Tensor:
        """Return the mask of non-padding tokens in `gold` [N, T]."""
        return self.gold.new_ones(1, self.gold.shape[1]).cumsum(1) <= self.length[:, None]

    @cached_property
    def real(self) -> Tensor:
        """Return the indices [M] of the non-padding tokens in `gold.flatten()`, row by row.

        Computed in host memory, because counting them on an accelerator would synchronize.
        """
        return to_device(self.on_host.mask.flatten().nonzero()[:, 0], self.ids.device)

    def at_real(self, values: Tensor) -> Tensor:
        """Return `values[mask]` [M, *] for `values` [N, T, *], without synchronizing."""
        selected = values.flatten(0, 1).index_select(0, self.real)
        if values.device.type != "cpu" and knows_host_copy(values):
            remember(selected, on_host(values).flatten(0, 1).index_select(0, on_host(self.real)))
        return selected

    @cached_property
    def on_host(self) -> Self:
        """Return the batch in host memory, to read values such as lengths.

        A batch moved by `to` keeps its original, so reading it does not synchronize.
        """
        return self.change(on_host)

    def to(self, device: torch.device | str, copy: bool = False) -> Self:
        """Return the batch on a device; its `on_host` remains this batch.

        With `copy`, all tensors are copied, so the receiver may modify them.
        """
        return self.change(lambda tensor: to_device(tensor, device, copy))


@dataclass(frozen=True)
class Prompt:
    """An example as text, for systems with their own tokenizer."""

    id: int  # unique within the split
    text: str  # the source or, without a source, the prompt; may be empty
    name: str = ""  # example name in the corpus, if any
    separator: str = ""  # text between the prompt and its target


@dataclass(frozen=True)
class Hypothesis:
    """A generated sequence; systems with their own tokenizer set `text` instead of `tokens`."""

    tokens: list[int]  # without EOS
    finished: bool  # ended by EOS, not by a limit
    log_prob: float | None = None  # model log-probability in nats, including EOS; None if unavailable
    actions: list[int] | None = None  # the sequence of actions, without EOS
    values: Mapping[str, float] = field(default_factory=dict)  # model-specific
    text: str | None = None  # by default the text of `tokens`; not stored, because `Prediction.texts` contains it
    token_count: int | None = None  # length including EOS, set if `tokens` are unknown; -1 for an unknown length

    @property
    def length(self) -> int | None:
        """Return the number of tokens, including EOS; None if unknown."""
        if self.token_count is None:
            return len(self.tokens) + self.finished
        return None if self.token_count < 0 else self.token_count


@dataclass(frozen=True)
class Prediction:
    """All data of one example that metrics may use, as plain data."""

    id: int  # unique within the split
    prompt: str = ""  # the source or, without a source, the prompt, as text
    references: list[str] = field(default_factory=list)  # accepted texts
    hypotheses: list[Hypothesis] = field(default_factory=list)  # best first
    texts: list[str] = field(default_factory=list)  # texts of `hypotheses`
    target_log_prob: float | None = None  # from a Scorer, in nats
    target_tokens: int = 0  # including EOS
    target_words: int | None = 0  # whitespace-separated, including EOS; None if the tokens do not decode to the text
    target_bytes: int | None = None  # length of the raw reference text; None if the tokens do not decode to it
    target_characters: int | None = None  # length of the raw reference text; None if the tokens do not decode to it
    weight: float = 1.0
    values: Mapping[str, float] = field(default_factory=dict)  # `Scores.values` of this example
    by_token: Mapping[str, Sequence[float]] | None = None  # values of each target token, if the model reports them
    group: int | None = None  # shared by dependent examples, such as captions of an image
    written: str | None = None  # the target as decoded from its tokens; None if it equals the first reference
