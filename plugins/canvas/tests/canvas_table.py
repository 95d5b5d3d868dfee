"""A canvas model that is a table: independent random distributions for every canvas, without weights."""

from __future__ import annotations

from itertools import product
from math import factorial

import torch

from bench_canvas.canvas import BEYOND, MASK, Canvas
from bench_core import Batch, Rng, State


class Table(Canvas[State]):
    """log p(token | place, canvas) are hashes of the canvas; rows have `width(id)` places."""

    def __init__(self, tokens=3, places=3, seed=0, width=None, sharp=1.0):
        self.tokens, self.number, self.seed, self.sharp = tokens, places, seed, sharp
        self.width = width or (lambda ids: torch.full_like(ids, places))

    def loss(self, batch, training):
        raise NotImplementedError

    def begin(self, batch):
        width = self.width(batch.ids)
        places = torch.arange(int(width.max()))
        return State(), torch.where(places < width[:, None], MASK, BEYOND)

    def places(self, known, canvas):
        codes = sum(
            (canvas[:, place] + 2) * 31**place
            for place in range(canvas.shape[1])
            if (canvas[:, place] != BEYOND).any()
        )
        logits = Rng(self.seed).normal(codes, 0, 12 * self.tokens).view(len(canvas), 12, self.tokens)
        return (self.sharp * logits[:, : canvas.shape[1]]).log_softmax(2)


def batch_of(rows, first=40):
    ids = torch.arange(first, first + rows)
    return Batch(
        ids, torch.zeros(rows, 1, dtype=torch.long), torch.zeros(rows, 1, dtype=torch.long), torch.ones_like(ids)
    )


def every(tokens, places):
    """Return all canvases of tokens [V^C, C]."""
    return torch.tensor([*product(range(tokens), repeat=places)])


def chain_rule(model, known, target, order):
    """Return sum_t log p(y_o(t) | y_o(<t)) [N], one place after the other."""
    canvas, total = torch.full_like(target, MASK), 0.0
    for place in order:
        total = total + model.places(known, canvas)[:, place].gather(1, target[:, place, None])[:, 0]
        canvas = canvas.clone()
        canvas[:, place] = target[:, place]
    return total


def exact(model, known, target, orders):
    """Return log p(y) [N], the sum over all orders, each of probability 1 / C!."""
    chains = torch.stack([chain_rule(model, known, target, order) for order in orders])
    return chains.logsumexp(0) - torch.tensor(float(factorial(target.shape[1]))).log()
