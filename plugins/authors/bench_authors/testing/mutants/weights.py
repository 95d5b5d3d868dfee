"""Mutants of losses that go half the way with weights of examples."""

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

# value and weight of a loss, given the costs of rows in nats, their target tokens and their weights, [N] each
Weighing: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def weighing(case: Case, weigh: Weighing) -> Case:
    """Let the loss of a batch with weights be what `weigh` makes of its rows."""

    def loss(model: Model, batch: Batch, training: Training) -> Loss:
        weights = batch.extras.get("weight")
        if weights is None:
            return model.loss(batch, training)
        plain = replace(batch, extras={name: one for name, one in batch.extras.items() if name != "weight"})
        single = [model.loss(plain.select(row), training) for row in torch.arange(len(batch))[:, None].unbind()]
        tokens = torch.stack([one.weight for one in single]).double()
        value, weight = weigh(torch.stack([one.value for one in single]) * tokens, tokens, weights)
        return replace(model.loss(plain, training), value=value, weight=weight)

    return replace(case, model=patched(case.model, loss=loss))


#: Losses that use the weights of examples `w` wrongly, given costs and target tokens `n` of rows.
MISWEIGHING = mutants_by(
    weighing,
    # the mean is weighted, and Loss.weight is the plain number of tokens
    weighs_all_but_its_weight=lambda costs, n, w: ((w * costs).sum() / (w * n).sum(), n.sum()),
    # costs are weighted, and divided by the plain number of tokens
    divides_by_all_tokens=lambda costs, n, w: ((w * costs).sum() / n.sum(), (w * n).sum()),
    # costs are weighted, and divided by the weights of rows, however long these are
    divides_by_rows=lambda costs, n, w: ((w * costs).sum() / w.sum(), w.sum()),
    # Loss.weight knows the weights of examples, and the mean does not
    weighs_nothing_but_its_weight=lambda costs, n, w: (costs.sum() / n.sum(), (w * n).sum()),
    # weights are taken for numbers of copies
    makes_whole_numbers_of_weights=lambda costs, n, w: (
        (w.ceil() * costs).sum() / (w.ceil() * n).sum(),
        (w.ceil() * n).sum(),
    ),
)
