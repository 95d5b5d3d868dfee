"""One update: losses of the parts of a batch, their gradient, clipping, and the step of the optimizers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bench_core.computing.result_checks import check_loss, named
from bench_core.data import Batch
from bench_core.errors import PluginError
from bench_core.model import Loss, Training
from bench_training.batch_stream import parts_of
from bench_training.optimizers import gradient_entries
from bench_training.peers import ALONE, Peers
from bench_training.precision import Precision


@dataclass(frozen=True)
class Computed:
    """What a batch has lost."""

    loss: Loss  # of the whole batch
    terms: Sequence[Loss]  # of the parts that this process computed, for what the log shows of them
    memory: list[Any]  # that each of these left


@dataclass
class Gradient:
    """Computes losses and their gradient: that of the mean loss per target token of a whole batch.

    A batch may be computed in parts, one after the other, or by several processes. The gradients of the parts are
    added up by their target tokens: sum_p w_p g_p / sum_p w_p, which is the gradient of the whole.
    """

    model: Any
    loss: Callable[[Batch, Training], Loss]  # of the model, perhaps compiled
    precision: Precision
    device: torch.device
    parts: int = 1
    peers: Peers = ALONE  # processes that share each batch

    def of(self, batch: Batch | None, training: Training, memory: Sequence[Any]) -> Computed:
        """Leave the gradient in the weights; return the loss, and the memory of each part for the next batch.

        `batch`, in main memory, is the share of this process, None if it has no rows.
        """
        if self.parts == 1 and self.peers is ALONE:
            assert batch is not None
            loss = self._lost(batch, replace(training, memory=memory[0] if memory else None))
            _backward(self.precision.scaled(loss.value))
            return Computed(loss, [loss], [_detached(loss.memory)])
        return self._of_parts([] if batch is None else parts_of(batch, self.parts), training, memory)

    def _of_parts(self, parts: Sequence[Batch], training: Training, memory: Sequence[Any]) -> Computed:
        found, left = [], []
        for number, part in enumerate(parts):
            own = memory[number] if number < len(memory) else None
            loss = self._lost(part, replace(training, memory=own))
            _backward(self.precision.scaled(loss.value * loss.weight.detach()))
            found.append(replace(loss, value=loss.value.detach(), memory=None))
            left.append(_detached(loss.memory))
        value, weight = self._totals(found)
        if self.peers is not ALONE:
            value, weight = self.peers.add_gradients(self.model, value, weight)
        for each in self.model.parameters():
            if each.grad is not None:
                gradient_entries(each).div_(weight)
        return Computed(Loss(value / weight, weight), found, left)

    def _totals(self, losses: Sequence[Loss]) -> tuple[Tensor, Tensor]:
        """Return the sum of losses over target tokens [], and the number of these []."""
        zero = torch.zeros((), dtype=torch.float64, device=self.device)
        value = sum(((one.value * one.weight).double() for one in losses), zero)
        return value, sum((one.weight.double() for one in losses), zero)

    def _lost(self, batch: Batch, training: Training) -> Loss:
        with self.precision.forward():
            loss = self.loss(batch.to(self.device), training)
        check_loss(loss, self.model)
        if not loss.value.requires_grad:
            who = named(self.model, "loss")
            raise PluginError(f"{who} gave a value without a gradient; it is to come of weights.")
        return loss


def _backward(value: Tensor) -> None:
    value.backward(torch.ones_like(value))  # type: ignore[no-untyped-call]


def _detached(memory: Any) -> Any:
    return None if memory is None else memory.change(Tensor.detach)
