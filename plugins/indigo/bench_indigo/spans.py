"""Partial canvases for training, and the spans missing in their slots (Stern et al., 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import STOP, Batch, Noise


@dataclass(frozen=True)
class Labels:
    """What the slots of N canvases are to be filled with, one label for each token of `gold`.

    A missing token is a label of its slot. Where a token is kept, or the target ends, there is a label of the slot
    before it if that is empty: stop, to leave it as it is.
    """

    slot: Tensor  # [N, T] of each label
    token: Tensor  # [N, T]
    weight: Tensor  # [N, T] float64; those of a slot sum to 1, and are 0 where there is no label
    slots: Tensor  # [N] how many each canvas has


def kept(batch: Batch, noise: Noise) -> Tensor:
    """Draw which tokens of `gold` are on the canvas [N, T]: all numbers are alike, then all choices of so many."""
    words = batch.length - 1
    number = (noise.fork("number").uniform(batch.ids) * (words + 1)).long()
    draws = noise.fork("choice").uniform(batch.ids, 0, batch.gold.shape[1])
    draws = draws.masked_fill(places_of(batch.gold) >= words[:, None], 2.0)  # above all: neither end nor padding
    return draws.argsort(1).argsort(1) < number[:, None]


def canvas(gold: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Return what is kept of `gold` [N, T] as a canvas [N, C], in the same order, and its lengths [N]."""
    length = keep.sum(1)
    width = int(length.max())
    place = torch.where(keep, keep.cumsum(1) - 1, width)
    return gold.new_zeros(len(gold), width + 1).scatter(1, place, gold)[:, :width], length


def labels(batch: Batch, keep: Tensor, tau: float | None) -> Labels:
    """Return what is missing on canvases that `keep` [N, T] tokens of `gold`, by weights of tau; alike if it is None.

    Of a span from i to j, k weighs exp(-|(i + j) / 2 - k| / tau), divided by the sum of these.
    """
    places, last = places_of(batch.gold), batch.length[:, None] - 1
    closing = keep | (places == last)  # a slot ends before each
    slot = closing.cumsum(1) - closing.long()
    start, end = _spans(closing)
    missing = ~closing & (places < last)
    raw = missing.double() if tau is None else missing * _nearness(places, start, end, tau)
    total = raw.new_zeros(raw.shape).scatter_add(1, slot, raw).gather(1, slot)
    weight = torch.where(missing, raw / total, (closing & (start == places)).double())
    return Labels(slot, batch.gold.masked_fill(~missing, STOP), weight, closing.sum(1))


def _spans(closing: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first and last place [N, T] of the span that each missing token is in, and each closing one ends."""
    places = places_of(closing).expand(closing.shape)
    width = closing.shape[1]
    before = torch.where(closing, places, -1).cummax(1).values  # itself, where it closes
    start = torch.cat([torch.zeros_like(before[:, :1]), before[:, :-1] + 1], 1)
    after = torch.where(closing, places, width).flip(1).cummin(1).values.flip(1)
    return start, after - 1


def _nearness(places: Tensor, start: Tensor, end: Tensor, tau: float) -> Tensor:
    """Return exp(-distance / tau) [N, T] for places in spans, of distances beyond those of the nearest in a span."""
    twice, parity = (start + end - 2 * places).abs(), (start + end) % 2
    return ((parity - twice).double() / (2 * tau)).exp()


def places_of(like: Tensor) -> Tensor:
    """Return 0, 1, ... as a row [1, T] for a table [N, T]."""
    return torch.arange(like.shape[1], device=like.device)[None]
