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
CACHED_PLACES = (
    64  #: distributions of which an entropy is computed at once, so that intermediate results stay in cache
)


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
    def write(self, drafts: Drafts, log_probs: Tensor, score: Tensor, step: int) -> Drafts:
        """Return the drafts after the 1-based pass `step`.

        `score` [N, C] is high for masked places to write first, and -inf for other places.
        """

    @torch.no_grad()
    def decode(self, model: Canvas[Any], batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        drafts = self._begin(model, batch)
        start = batch.prompt.shape[1] - 1
        hypotheses: dict[int, Hypothesis] = {}
        for step in count(1):
            log_probs = model.places(drafts.known, drafts.canvas)
            self._check(log_probs, drafts, model, step)
            drafts = self.write(drafts, log_probs, self._scores(log_probs, drafts, rng.fork(step)), step)
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
        low, high = log_probs.amin(2), log_probs.amax(2)  # both propagate NaN; faster than `aminmax` of a dimension
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

    def _scores(self, log_probs: Tensor, drafts: Drafts, rng: Rng) -> Tensor:
        """Return how early the `order` writes each masked place [N, C], in float64; -inf for other places."""
        masked = drafts.canvas == MASK
        if self.config.order == "random":
            return rng.uniform(drafts.ids, 0, masked.shape[1]).masked_fill(~masked, -torch.inf)
        if self.config.order == "left":
            places = torch.arange(masked.shape[1], dtype=torch.float64, device=masked.device)
            return (-places).expand(masked.shape).masked_fill(~masked, -torch.inf)
        score = _certainty(_at(log_probs, masked), self.config.order)
        return torch.full(masked.shape, -torch.inf, dtype=score.dtype, device=score.device).masked_scatter(
            masked, score
        )


class Unmask(WritePlaces):
    """Write the masked places with the highest scores: `k` in each pass, or a share of 1 / `passes`."""

    config: UnmaskConfig

    def passes(self, places: Tensor) -> Tensor:
        if self.config.passes is not None:
            return places.clamp(max=self.config.passes)
        k = self.config.k or 1
        return (places + k - 1) // k

    def write(self, drafts: Drafts, log_probs: Tensor, score: Tensor, step: int) -> Drafts:
        number = self._total(drafts, step) - self._total(drafts, step - 1)
        chosen = (drafts.canvas == MASK) & (_ranks(score) < number[:, None])
        canvas = _with_best_tokens(drafts.canvas, chosen, log_probs)
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

    def write(self, drafts: Drafts, log_probs: Tensor, score: Tensor, step: int) -> Drafts:
        masked = drafts.canvas == MASK
        score = torch.where(masked, score, drafts.score)
        kept = drafts.free.sum(1) * step // drafts.passes
        again = drafts.free & (_ranks(score.masked_fill(~drafts.free, -torch.inf)) >= kept[:, None])
        canvas = _with_best_tokens(drafts.canvas, masked, log_probs).masked_fill(again, MASK)
        written = drafts.written.masked_fill(masked, step)
        return replace(drafts, canvas=canvas, written=written, score=score)


def _at(log_probs: Tensor, places: Tensor) -> Tensor:
    """Return the log-probabilities [M, V] of the selected `places` [N, C], without a copy if these are all."""
    return log_probs.flatten(0, 1) if places.all() else log_probs[places]


def _certainty(log_probs: Tensor, order: str) -> Tensor:
    """Return the confidence, margin or negative entropy [M] of distributions [M, V], in float64."""
    if order == "margin":
        best = _two_best(log_probs).double().exp()
        return best[:, 0] - best[:, -1]
    if order == "entropy":
        return torch.cat([(part.exp() * part).sum(1) for part in torch.split(log_probs, CACHED_PLACES)]).double()
    return log_probs.amax(1).double()


def _two_best(log_probs: Tensor, width: int = 64) -> Tensor:
    """Return the two highest values of each row [M, 2], or one if V = 1, from the two best parts of `width` columns.

    A maximum of all columns is several times faster than `topk`.
    """
    number = log_probs.shape[1] // width
    if number < 4:
        return log_probs.topk(min(2, log_probs.shape[1]), 1).values
    parts = log_probs[:, : number * width].view(-1, number, width)
    best = parts.amax(2).topk(2, 1).indices
    some = parts.gather(1, best[:, :, None].expand(-1, -1, width)).flatten(1)
    return torch.cat([some, log_probs[:, number * width :]], 1).topk(2, 1).values


def _with_best_tokens(canvas: Tensor, places: Tensor, log_probs: Tensor) -> Tensor:
    """Return a canvas with the best token in each of the selected `places` [N, C]."""
    return canvas.masked_scatter(places, _at(log_probs, places).argmax(1))


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
