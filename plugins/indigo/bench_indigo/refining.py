"""Decoders that insert words into a canvas until nothing is missing (Stern et al., 2019)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from bench_core import STOP, Batch, Decoder, Hypothesis, Noise, State, checked
from bench_indigo.plugin import InsertConfig, InsertParallelConfig
from bench_indigo.refiner import Refiner
from bench_indigo.spans import places_of

SLOTS = 2048  # whose distributions are held at a time


@dataclass(frozen=True)
class Sketch(State):
    """Canvases that still grow."""

    row: Tensor  # [N] of the batch
    known: State
    canvas: Tensor  # [N, C]
    length: Tensor  # [N] real tokens
    limit: Tensor  # [N] most tokens, stop included
    closed: Tensor  # [N, C + 1] slots that are not asked any more

    @classmethod
    def of(cls, model: Refiner[Any], batch: Batch, max_tokens: int) -> Sketch:
        """Return an empty canvas for each row."""
        own, rows = model.limit(batch), torch.arange(len(batch), device=batch.ids.device)
        limit = torch.full_like(rows, max_tokens) if own is None else own.clamp(max=max_tokens)
        closed = torch.zeros(len(batch), 1, dtype=torch.bool, device=rows.device)
        return cls(rows, model.begin(batch), rows.new_zeros(len(batch), 0), torch.zeros_like(rows), limit, closed)

    def inserted(self, words: Tensor, chosen: Tensor, closed: Tensor) -> Sketch:
        """Return canvases with `words` [N, C + 1] in the slots that are `chosen`, and other slots `closed`."""
        shift = chosen.cumsum(1)  # [N, C + 1] new words in a slot and on its left
        length = self.length + shift[:, -1]
        width, slots = int(length.max()), places_of(chosen)
        beyond = torch.full_like(shift, width)
        old = torch.where(slots < self.length[:, None], slots + shift, beyond)[:, :-1]
        new = torch.where(chosen, slots + shift - 1, beyond)
        canvas = words.new_zeros(len(words), width + 1).scatter(1, old, self.canvas).scatter(1, new, words)
        moved = torch.where(closed, slots + shift, beyond + 1)
        shut = closed.new_zeros(len(words), width + 2).scatter(1, moved, closed)
        return replace(self, canvas=canvas[:, :width], length=length, closed=shut[:, : width + 1])

    def going(self, rows: Tensor) -> Sketch:
        """Return `rows` [M] alone, as wide as they need."""
        some = self.select(rows)
        width = int(some.length.max())
        return replace(some, canvas=some.canvas[:, :width], closed=some.closed[:, : width + 1])


class Insert(Decoder[Refiner[Any]]):
    """Reread the canvases and insert words, pass after pass, until the best of every slot is to leave it as it is."""

    config: InsertConfig

    @abstractmethod
    def chosen(self, log_probs: Tensor, opened: Tensor) -> Tensor:
        """Return which of the `opened` slots are filled [N, C + 1], by log p(word, slot) of their best words."""

    def closed(self, asked: Tensor, opened: Tensor) -> Tensor:
        """Return which slots are not asked again [N, C + 1]; by default none."""
        return torch.zeros_like(asked)

    @torch.no_grad()
    def decode(self, model: Refiner[Any], batch: Batch, noise: Noise) -> list[list[Hypothesis]]:
        sketch = Sketch.of(model, batch, self.config.max_tokens)
        found: dict[int, Hypothesis] = {}
        actions: list[list[int]] = [[] for _ in range(len(batch))]
        for calls in count(1):
            words, log_probs = self._best(model, sketch, calls)
            asked = log_probs > -torch.inf
            opened = asked & (words != STOP)
            chosen = self.chosen(log_probs.masked_fill(~opened, -torch.inf), opened)
            chosen = chosen & (chosen.cumsum(1) <= (sketch.limit - sketch.length)[:, None])
            for row, *pair in _pairs(sketch.row, words, chosen):
                actions[row] += pair
            sketch = sketch.inserted(words, chosen, sketch.closed | self.closed(asked, opened))

            finished = ~opened.any(1)
            ended = finished | (sketch.length == sketch.limit)
            for row, tokens, stopped in _texts(sketch, finished, ended):
                found[row] = Hypothesis(tokens, stopped, None, actions[row], {"calls": float(calls)})
            live = (~ended).nonzero()[:, 0]
            if not len(live):
                return [[found[row]] for row in range(len(batch))]
            sketch = sketch.going(live)
        raise AssertionError("a pass that inserts nothing is the last one")

    def _best(self, model: Refiner[Any], sketch: Sketch, calls: int) -> tuple[Tensor, Tensor]:
        """Return the best word of each slot [N, C + 1] and its log p(word, slot), -inf where there is none to ask."""
        log_slots, vectors = model.refine(sketch.known, sketch.canvas, sketch.length)
        checked(log_slots, model, "refine", calls)
        asked = (log_slots > -torch.inf) & ~sketch.closed
        filled = (checked(model.fill(part), model, "fill", calls) for part in torch.split(vectors[asked], SLOTS))
        parts = [self._best_words(log_probs) for log_probs in filled]
        some, best = (torch.cat(column) for column in zip(*parts, strict=True))
        gains, words = some.new_full(asked.shape, -torch.inf), best.new_zeros(asked.shape)
        return words.masked_scatter(asked, best), log_slots + gains.masked_scatter(asked, some)

    def _best_words(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the highest log-probability of slots [M], less `penalty`, and its word; of equal ones the lower."""
        stop = torch.arange(log_probs.shape[1], device=log_probs.device) == STOP
        gains, words = (log_probs - self.config.penalty * stop).max(1)
        return gains, words


class InsertGreedy(Insert):
    """Insert the one best word in the one best slot; of equal ones the lower."""

    def chosen(self, log_probs: Tensor, opened: Tensor) -> Tensor:
        return opened & (places_of(opened) == log_probs.argmax(1)[:, None])


class InsertParallel(Insert):
    """Insert the best word in every slot that has not ended, all at once; at a limit, those on the left."""

    config: InsertParallelConfig

    def chosen(self, log_probs: Tensor, opened: Tensor) -> Tensor:
        return opened

    def closed(self, asked: Tensor, opened: Tensor) -> Tensor:
        return torch.zeros_like(asked) if self.config.reopen else asked & ~opened


def _pairs(row: Tensor, words: Tensor, chosen: Tensor) -> list[list[int]]:
    """Return the row, word and slot's action of each insertion, as if those of a row came from left to right."""
    at, slot = chosen.nonzero().unbind(1)
    action = slot + chosen.cumsum(1)[at, slot]  # slot s is action s + 1, and those on the left have moved it
    found: list[list[int]] = torch.stack([row[at], words[at, slot], action], 1).tolist()
    return found


def _texts(sketch: Sketch, finished: Tensor, ended: Tensor) -> list[tuple[int, list[int], bool]]:
    """Return the row of the batch, tokens, and whether it stopped by itself, for all that have ended."""
    some = ended.nonzero()[:, 0]
    columns = (sketch.row[some], sketch.canvas[some], sketch.length[some], finished[some])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(row, tokens[:length], stopped) for row, tokens, length, stopped in rows]
