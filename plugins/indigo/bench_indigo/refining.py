"""Decoders that insert words into a canvas until nothing is missing (Stern et al., 2019)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from bench_core import STOP, Batch, Decoder, Hypothesis, Rng, State, checked
from bench_indigo.plugin import InsertConfig, InsertParallelConfig
from bench_indigo.refiner import Refiner
from bench_indigo.spans import places_of

SLOTS = 2048  # slots per chunk of word distributions


@dataclass(frozen=True)
class Canvases(State):
    """Unfinished canvases."""

    row: Tensor  # [N] row in the batch
    known: State
    canvas: Tensor  # [N, C]
    length: Tensor  # [N] number of real tokens
    limit: Tensor  # [N] maximum number of tokens, EOS included
    closed: Tensor  # [N, C + 1] slots that are no longer considered

    @classmethod
    def of(cls, model: Refiner[Any], batch: Batch, max_tokens: int) -> Canvases:
        """Return an empty canvas for each row."""
        limits, rows = model.limit(batch), torch.arange(len(batch), device=batch.ids.device)
        limit = torch.full_like(rows, max_tokens) if limits is None else limits.clamp(max=max_tokens)
        closed = torch.zeros(len(batch), 1, dtype=torch.bool, device=rows.device)
        return cls(rows, model.begin(batch), rows.new_zeros(len(batch), 0), torch.zeros_like(rows), limit, closed)

    def insert(self, words: Tensor, chosen: Tensor, closed: Tensor) -> Canvases:
        """Insert `words` [N, C + 1] in the `chosen` slots, and close the `closed` slots."""
        shift = chosen.cumsum(1)  # [N, C + 1] number of new words in a slot and left of it
        length = self.length + shift[:, -1]
        width, slots = int(length.max()), places_of(chosen)
        beyond = torch.full_like(shift, width)
        old = torch.where(slots < self.length[:, None], slots + shift, beyond)[:, :-1]
        new = torch.where(chosen, slots + shift - 1, beyond)
        canvas = words.new_zeros(len(words), width + 1).scatter(1, old, self.canvas).scatter(1, new, words)
        moved = torch.where(closed, slots + shift, beyond + 1)
        moved_closed = closed.new_zeros(len(words), width + 2).scatter(1, moved, closed)
        return replace(self, canvas=canvas[:, :width], length=length, closed=moved_closed[:, : width + 1])

    def select_rows(self, rows: Tensor) -> Canvases:
        """Return only the `rows` [M], trimmed to their longest canvas."""
        some = self.select(rows)
        width = int(some.length.max())
        return replace(some, canvas=some.canvas[:, :width], closed=some.closed[:, : width + 1])


class Insert(Decoder[Refiner[Any]]):
    """Encode the canvases and insert words, pass after pass, until the best choice for every slot is no word."""

    config: InsertConfig

    @abstractmethod
    def choose(self, log_probs: Tensor, opened: Tensor) -> Tensor:
        """Return which `opened` slots to fill [N, C + 1], given log p(word, slot) of their best words."""

    def close(self, considered: Tensor, opened: Tensor) -> Tensor:
        """Return which slots to close [N, C + 1]; by default, no slots."""
        return torch.zeros_like(considered)

    @torch.no_grad()
    def decode(self, model: Refiner[Any], batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        canvases = Canvases.of(model, batch, self.config.max_tokens)
        hypotheses: dict[int, Hypothesis] = {}
        actions: list[list[int]] = [[] for _ in range(len(batch))]
        for calls in count(1):
            words, log_probs = self._best(model, canvases, calls)
            considered = log_probs > -torch.inf
            opened = considered & (words != STOP)
            chosen = self.choose(log_probs.masked_fill(~opened, -torch.inf), opened)
            chosen = chosen & (chosen.cumsum(1) <= (canvases.limit - canvases.length)[:, None])
            for row, *pair in _pairs(canvases.row, words, chosen):
                actions[row] += pair
            canvases = canvases.insert(words, chosen, canvases.closed | self.close(considered, opened))

            finished = ~opened.any(1)
            ended = finished | (canvases.length == canvases.limit)
            for row, tokens, stopped in _texts(canvases, finished, ended):
                hypotheses[row] = Hypothesis(tokens, stopped, None, actions[row], {"calls": float(calls)})
            live = (~ended).nonzero()[:, 0]
            if not len(live):
                return [[hypotheses[row]] for row in range(len(batch))]
            canvases = canvases.select_rows(live)
        raise AssertionError("a pass that inserts nothing is the last one")

    def _best(self, model: Refiner[Any], canvases: Canvases, calls: int) -> tuple[Tensor, Tensor]:
        """Return the best word of each slot [N, C + 1] and its log p(word, slot), -inf if closed or missing."""
        log_slots, vectors = model.refine(canvases.known, canvases.canvas, canvases.length)
        checked(log_slots, model, "refine", calls)
        considered = (log_slots > -torch.inf) & ~canvases.closed
        filled = (checked(model.fill(part), model, "fill", calls) for part in torch.split(vectors[considered], SLOTS))
        parts = [self._best_words(log_probs) for log_probs in filled]
        some, best = (torch.cat(column) for column in zip(*parts, strict=True))
        gains, words = some.new_full(considered.shape, -torch.inf), best.new_zeros(considered.shape)
        return words.masked_scatter(considered, best), log_slots + gains.masked_scatter(considered, some)

    def _best_words(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Return each slot's highest log-probability [M], after `penalty`, and its word; ties go to the lower id."""
        stop = torch.arange(log_probs.shape[1], device=log_probs.device) == STOP
        gains, words = (log_probs - self.config.penalty * stop).max(1)
        return gains, words


class InsertGreedy(Insert):
    """Insert the best word in the best slot; ties go to the lower id."""

    def choose(self, log_probs: Tensor, opened: Tensor) -> Tensor:
        return opened & (places_of(opened) == log_probs.argmax(1)[:, None])


class InsertParallel(Insert):
    """Insert the best word in every open slot at once; near the token limit, only in the leftmost slots."""

    config: InsertParallelConfig

    def choose(self, log_probs: Tensor, opened: Tensor) -> Tensor:
        return opened

    def close(self, considered: Tensor, opened: Tensor) -> Tensor:
        return torch.zeros_like(considered) if self.config.reopen else considered & ~opened


def _pairs(row: Tensor, words: Tensor, chosen: Tensor) -> list[list[int]]:
    """Return the row, word and slot action of each insertion, as if words were inserted from left to right."""
    at, slot = chosen.nonzero().unbind(1)
    action = slot + chosen.cumsum(1)[at, slot]  # slot s is action s + 1, shifted by insertions on its left
    triples: list[list[int]] = torch.stack([row[at], words[at, slot], action], 1).tolist()
    return triples


def _texts(canvases: Canvases, finished: Tensor, ended: Tensor) -> list[tuple[int, list[int], bool]]:
    """Return the batch row and the tokens of each canvas that has ended, and whether it is finished."""
    some = ended.nonzero()[:, 0]
    columns = (canvases.row[some], canvases.canvas[some], canvases.length[some], finished[some])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(row, tokens[:length], stopped) for row, tokens, length, stopped in rows]
