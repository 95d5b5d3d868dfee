"""Mutants of losses with wrong weights of examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from bench_authors.testing.contracts import mutants_by, patched
from bench_core import Batch, Loss, Model, Training

if TYPE_CHECKING:
    from bench_authors.testing.cases import Case

# Maps costs of rows in nats, their target tokens and their weights, [N] each, to value and weight of a loss.
Weighing: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def weighing(case: Case, weigh: Weighing) -> Case:
    """If a batch has weights, compute its loss with `weigh` from the losses of its rows."""

    def loss(model: Model, batch: Batch, training: Training) -> Loss:
        weights = batch.extras.get("weight")
        if weights is None:
            return model.loss(batch, training)
        plain = replace(batch, extras={name: extra for name, extra in batch.extras.items() if name != "weight"})
        single = [model.loss(plain.select(row), training) for row in torch.arange(len(batch))[:, None].unbind()]
        tokens = torch.stack([loss.weight for loss in single]).double()
        value, weight = weigh(torch.stack([loss.value for loss in single]) * tokens, tokens, weights)
        return replace(model.loss(plain, training), value=value, weight=weight)

    return replace(case, model=patched(case.model, loss=loss))


#: Losses that misuse the weights `w` of examples, given the costs and target tokens `n` of rows.
MISWEIGHING = mutants_by(
    weighing,
    # the mean is weighted, but Loss.weight is the number of tokens
    weighs_all_but_its_weight=lambda costs, n, w: ((w * costs).sum() / (w * n).sum(), n.sum()),
    # weighted costs are divided by the unweighted number of tokens
    divides_by_all_tokens=lambda costs, n, w: ((w * costs).sum() / n.sum(), (w * n).sum()),
    # weighted costs are divided by the weights of rows, regardless of length
    divides_by_rows=lambda costs, n, w: ((w * costs).sum() / w.sum(), w.sum()),
    # Loss.weight uses the weights of examples, but the mean does not
    weighs_nothing_but_its_weight=lambda costs, n, w: (costs.sum() / n.sum(), (w * n).sum()),
    # weights are rounded up to numbers of copies
    makes_whole_numbers_of_weights=lambda costs, n, w: (
        (w.ceil() * costs).sum() / (w.ceil() * n).sum(),
        (w.ceil() * n).sum(),
    ),
)
