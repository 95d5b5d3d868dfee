"""Partial canvases for training, and the spans missing from their slots (Stern et al., 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bench_core import STOP, Batch, Rng


@dataclass(frozen=True)
class SlotLabels:
    """Targets of the slots of N canvases, with one label per token of `gold`.

    A missing token is a label of its slot. If no token is missing before a token on the canvas, or before the end of
    the target, the label of the slot before it is EOS.
    """

    slot: Tensor  # [N, T]
    token: Tensor  # [N, T]
    weight: Tensor  # [N, T] float64; sums to 1 over each slot, 0 if there is no label
    slots: Tensor  # [N] number of slots


def sample_canvas_mask(batch: Batch, rng: Rng) -> Tensor:
    """Sample which tokens of `gold` are on the canvas [N, T]: first their number, then the tokens, both uniformly."""
    words = batch.length - 1
    number = (rng.fork("number").uniform(batch.ids) * (words + 1)).long()
    draws = rng.fork("choice").uniform(batch.ids, 0, batch.gold.shape[1])
    draws = draws.masked_fill(places_of(batch.gold) >= words[:, None], 2.0)  # sorts EOS and padding last
    return draws.argsort(1).argsort(1) < number[:, None]


def canvas(gold: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Return the selected tokens of `gold` [N, T] as a canvas [N, C], in the same order, and its lengths [N]."""
    length = keep.sum(1)
    width = int(length.max())
    place = torch.where(keep, keep.cumsum(1) - 1, width)
    return gold.new_zeros(len(gold), width + 1).scatter(1, place, gold)[:, :width], length


def labels(batch: Batch, keep: Tensor, tau: float | None) -> SlotLabels:
    """Return the labels of canvases with the `keep` [N, T] tokens of `gold`; weights are uniform if `tau` is None.

    In a span from i to j, token k has weight exp(-|(i + j) / 2 - k| / tau), normalized over the span.
    """
    places, last = places_of(batch.gold), batch.length[:, None] - 1
    closing = keep | (places == last)  # ends a slot
    slot = closing.cumsum(1) - closing.long()
    start, end = _spans(closing)
    missing = ~closing & (places < last)
    raw = missing.double() if tau is None else missing * _nearness(places, start, end, tau)
    total = raw.new_zeros(raw.shape).scatter_add(1, slot, raw).gather(1, slot)
    weight = torch.where(missing, raw / total, (closing & (start == places)).double())
    return SlotLabels(slot, batch.gold.masked_fill(~missing, STOP), weight, closing.sum(1))


def _spans(closing: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first and last place [N, T] of the span that a missing token is in, or that another token closes."""
    places = places_of(closing).expand(closing.shape)
    width = closing.shape[1]
    before = torch.where(closing, places, -1).cummax(1).values  # its own place, if closing
    start = torch.cat([torch.zeros_like(before[:, :1]), before[:, :-1] + 1], 1)
    after = torch.where(closing, places, width).flip(1).cummin(1).values.flip(1)
    return start, after - 1


def _nearness(places: Tensor, start: Tensor, end: Tensor, tau: float) -> Tensor:
    """Return exp(-d / tau) [N, T], where d is the distance from the middle, minus its minimum over the span."""
    twice, parity = (start + end - 2 * places).abs(), (start + end) % 2
    return ((parity - twice).double() / (2 * tau)).exp()


def places_of(like: Tensor) -> Tensor:
    """Return 0, 1, ... as a row [1, T] for a table [N, T]."""
    return torch.arange(like.shape[1], device=like.device)[None]
