"""Canvases of the rows of a batch: blank, with their targets, and partly masked for training."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from bench_canvas.canvas import BEYOND, MASK
from bench_core import STOP, Batch, Rng, SuiteError


@dataclass(frozen=True)
class MaskedPlaces:
    """Masked places of a training batch, and the weights of their costs in the bound."""

    hidden: Tensor  # [N, C]
    weight: Tensor  # [N] places to fill / hidden places


def blank(batch: Batch, width: Tensor, name: str) -> Tensor:
    """Return canvases [N, C] of `width` [N] places with the prompt, then MASK, then BEYOND.

    Raises SuiteError, with the `name` of the model, if the prompt fills the canvas.
    """
    prompt = batch.prompt[:, 1:]
    full = (width <= prompt.shape[1]).nonzero()[:, 0]
    if len(full):
        row = int(full[0])
        raise SuiteError(
            f"the prompt of example {int(batch.ids[row])} has {prompt.shape[1]} tokens and fills the canvas of "
            f"{name}, which has {int(width[row])} places. Increase `places`, or shorten the prompts."
        )
    places = torch.arange(int(width.max()), device=prompt.device)
    canvas = torch.where(places < width[:, None], MASK, BEYOND)
    canvas[:, : prompt.shape[1]] = prompt
    return canvas


def filled(batch: Batch, canvas: Tensor, name: str) -> Tensor:
    """Return blank canvases [N, C] with the target and EOS in every place after it.

    Raises SuiteError, with the `name` of the model, if a canvas is shorter than its target.
    """
    start = batch.prompt.shape[1] - 1
    free = (canvas == MASK).sum(1)
    short = (batch.length > free).nonzero()[:, 0]
    if len(short):
        row = int(short[0])
        raise SuiteError(
            f"the target of example {int(batch.ids[row])} has {int(batch.length[row])} tokens, EOS included, but the "
            f"canvas of {name} has {int(free[row])} places for it. Increase `places` (or, without it, "
            "`limit_ratio` or `limit_extra`), or exclude long targets."
        )
    gold = batch.gold.masked_fill(~batch.mask, STOP)
    gold = pad(gold, (start, max(0, canvas.shape[1] - start - gold.shape[1])))[:, : canvas.shape[1]]
    return torch.where(canvas == MASK, gold, canvas)


def sample_hidden(ids: Tensor, free: Tensor, rng: Rng) -> MaskedPlaces:
    """Sample which `free` places [N, C] to mask: first their number, then the places, both uniformly."""
    size = free.sum(1)
    number = 1 + (rng.fork("number").uniform(ids) * size).long()
    hidden = free & (sample_ranks(ids, free, rng.fork("places")) < number[:, None])
    return MaskedPlaces(hidden, size / number)


def sample_ranks(ids: Tensor, free: Tensor, rng: Rng) -> Tensor:
    """Return a random order of the `free` places of each row, as ranks [N, C]; other places follow."""
    uniform = rng.uniform(ids, 0, free.shape[1]).masked_fill(~free, 2.0)
    return uniform.argsort(1).argsort(1)
