"""Decoders that write the places of a canvas, in an order that they choose."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from bench_canvas.canvas import BEYOND, MASK, Canvas
from bench_canvas.plugin import CanvasDecoderConfig, MaskPredictConfig, UnmaskConfig
from bench_core import STOP, Batch, Decoder, Hypothesis, PluginError, Rng, State

ROOM = 1e-3  #: rounding tolerance of log-probabilities above 0, in nats
HALF_ROOM = 0.1  #: the same for 16-bit types


@dataclass(frozen=True)
class Drafts(State):
    """Unfinished canvases; C places each."""

    row: Tensor  # [N] row in the batch
    ids: Tensor  # [N]
    known: State
    canvas: Tensor  # [N, C]
    free: Tensor  # [N, C] places that are written
    passes: Tensor  # [N] number of passes
    written: Tensor  # [N, C] the pass that last wrote a place
    score: Tensor  # [N, C] how good a written token was, when written


@dataclass(frozen=True)
class Proposal:
    """The best token of each place."""

    token: Tensor  # [N, C]
    score: Tensor  # [N, C] float64; places with higher scores are written first


class WritePlaces(Decoder[Canvas[Any]]):
    """Predict all places, then write some of them, pass after pass; ties go to the left, then to lower tokens.

    Hypotheses have the number of passes as `calls`, and insertions, in order, as actions: the words before EOS, each
    by the pass that last wrote it, from left to right within a pass.
    """

    config: CanvasDecoderConfig

    @abstractmethod
    def passes(self, places: Tensor) -> Tensor:
        """Return the number of passes [N] for canvases with `places` [N] to write."""

    @abstractmethod
    def write(self, drafts: Drafts, proposal: Proposal, step: int) -> Drafts:
        """Return the drafts after the 1-based pass `step`."""

    @torch.no_grad()
    def decode(self, model: Canvas[Any], batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        drafts = self._begin(model, batch)
        start = batch.prompt.shape[1] - 1
        hypotheses: dict[int, Hypothesis] = {}
        for step in count(1):
            log_probs = model.places(drafts.known, drafts.canvas)
            self._check(log_probs, drafts, model, step)
            drafts = self.write(drafts, self._propose(log_probs, drafts, rng.fork(step)), step)
            ended = drafts.passes <= step
            for row, canvas, written in _columns(drafts, ended):
                hypotheses[row] = _hypothesis(canvas[start:], written[start:], self.config.max_tokens, step)
            live = (~ended).nonzero()[:, 0]
            if not len(live):
                return [[hypotheses[row]] for row in range(len(batch))]
            drafts = drafts.select(live) if len(live) < len(ended) else drafts
        raise AssertionError("every draft has a last pass")

    def _begin(self, model: Canvas[Any], batch: Batch) -> Drafts:
        known, canvas = model.begin(batch)
        free = canvas == MASK
        rows = torch.arange(len(batch), device=canvas.device)
        passes, score = self.passes(free.sum(1)), torch.zeros(canvas.shape, dtype=torch.float64, device=canvas.device)
        return Drafts(rows, batch.ids, known, canvas, free, passes, torch.zeros_like(canvas), score)

    def _check(self, log_probs: Tensor, drafts: Drafts, model: Canvas[Any], step: int) -> None:
        """Raise PluginError if a log-probability of a place is NaN, infinite or positive."""
        low, high = log_probs.aminmax(dim=2)
        room = ROOM if log_probs.itemsize > 2 else HALF_ROOM
        wrong = (drafts.canvas != BEYOND) & ~((low > -torch.inf) & (high <= room))
        if wrong.any():
            row, place = wrong.nonzero()[0].tolist()
            worst = high[row, place] if not high[row, place] <= room else low[row, place]
            raise PluginError(
                f"{self.config.name}: {type(model).__name__}.places gave a log-probability of {worst.item():.4g} at "
                f"place {place + 1} in pass {step}, for example {int(drafts.ids[row])}; log-probabilities of places "
                "must be finite and at most 0 (have weights diverged, or is a log_softmax missing?)."
            )

    def _propose(self, log_probs: Tensor, drafts: Drafts, rng: Rng) -> Proposal:
        best, token = log_probs.max(2)
        width = token.shape[1]
        match self.config.order:
            case "margin":
                second = log_probs.scatter(2, token[:, :, None], -torch.inf).amax(2)
                score = best.double().exp() - second.double().exp()
            case "entropy":
                score = (log_probs.exp() * log_probs).sum(2)
            case "random":
                score = rng.uniform(drafts.ids, 0, width)
            case "left":
                score = -torch.arange(width, device=token.device).expand(token.shape)
            case _:
                score = best
        return Proposal(token, score.double())


class Unmask(WritePlaces):
    """Write the masked places with the highest scores: `k` in each pass, or a share of 1 / `passes`."""

    config: UnmaskConfig

    def passes(self, places: Tensor) -> Tensor:
        if self.config.passes is not None:
            return places.clamp(max=self.config.passes)
        k = self.config.k or 1
        return (places + k - 1) // k

    def write(self, drafts: Drafts, proposal: Proposal, step: int) -> Drafts:
        masked = drafts.canvas == MASK
        number = self._total(drafts, step) - self._total(drafts, step - 1)
        chosen = masked & (_ranks(proposal.score.masked_fill(~masked, -torch.inf)) < number[:, None])
        canvas = torch.where(chosen, proposal.token, drafts.canvas)
        return replace(drafts, canvas=canvas, written=drafts.written.masked_fill(chosen, step))

    def _total(self, drafts: Drafts, step: int) -> Tensor:
        """Return the number of places [N] written after a pass."""
        places = drafts.free.sum(1)
        if self.config.passes is None:
            return places.clamp(max=step * (self.config.k or 1))
        return places * step // drafts.passes


class MaskPredict(WritePlaces):
    """Write all masked places, then mask the places with the lowest scores again, in each pass fewer."""

    config: MaskPredictConfig

    def passes(self, places: Tensor) -> Tensor:
        return places.clamp(max=self.config.passes)

    def write(self, drafts: Drafts, proposal: Proposal, step: int) -> Drafts:
        masked = drafts.canvas == MASK
        score = torch.where(masked, proposal.score, drafts.score)
        kept = drafts.free.sum(1) * step // drafts.passes
        again = drafts.free & (_ranks(score.masked_fill(~drafts.free, -torch.inf)) >= kept[:, None])
        canvas = torch.where(masked, proposal.token, drafts.canvas).masked_fill(again, MASK)
        written = drafts.written.masked_fill(masked, step)
        return replace(drafts, canvas=canvas, written=written, score=score)


def _ranks(score: Tensor) -> Tensor:
    """Return the rank of each place by decreasing score [N, C]; ties go to the left."""
    return score.argsort(dim=1, descending=True, stable=True).argsort(1)


def _columns(drafts: Drafts, ended: Tensor) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield the batch row of each canvas that has ended, its tokens, and the passes that wrote them."""
    some = ended.nonzero()[:, 0]
    columns = (drafts.row[some], drafts.canvas[some], drafts.written[some])
    return zip(*(column.tolist() for column in columns), strict=True)


def _hypothesis(canvas: list[int], written: list[int], max_tokens: int, calls: int) -> Hypothesis:
    """Return the output of a canvas after its prompt, truncated at the first EOS or to `max_tokens`."""
    ends = [place for place, token in enumerate(canvas) if token in (STOP, BEYOND)]
    length = min([*ends[:1], len(canvas)])
    finished = canvas[length : length + 1] == [STOP] and length < max_tokens
    tokens = canvas[: min(length, max_tokens)]
    return Hypothesis(tokens, finished, None, insertions(tokens, written), {"calls": float(calls)})


def insertions(tokens: list[int], written: list[int]) -> list[int]:
    """Return the actions that insert `tokens` in order of their passes: words and slots in turn; slot s is s + 1."""
    actions: list[int] = []
    before: list[int] = []  # places of the words inserted so far
    for place in sorted(range(len(tokens)), key=lambda place: written[place]):
        actions += [tokens[place], 1 + sum(other < place for other in before)]
        before.append(place)
    return actions
