"""The losses of the parts of a batch, and their gradient."""

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
from bench_training.data_parallel import ALONE, DataParallel
from bench_training.optimizers import gradient_entries
from bench_training.precision import Precision


@dataclass(frozen=True)
class BatchLoss:
    """The loss of a batch."""

    loss: Loss  # the loss of the whole batch
    terms: Sequence[Loss]  # losses of the parts that this process computed, for the log
    memory: list[Any]  # model state after each of these parts


@dataclass
class Gradient:
    """Computes losses and the gradient of the mean loss per target token of a whole batch.

    A batch may be computed in parts, sequentially or by several processes. The gradients of the parts are weighted by
    their target tokens: sum_p w_p g_p / sum_p w_p, which is the gradient of the whole batch.
    """

    model: Any
    loss: Callable[[Batch, Training], Loss]  # the model's loss, possibly compiled
    precision: Precision
    device: torch.device
    parts: int = 1
    group: DataParallel = ALONE  # the processes that share each batch

    def of(self, batch: Batch | None, training: Training, memory: Sequence[Any]) -> BatchLoss:
        """Store the gradient in the weights; return the loss, and the memory of each part for the next batch.

        `batch`, in main memory, is the share of this process; None if this process has no rows.
        """
        if self.parts == 1 and self.group is ALONE:
            assert batch is not None
            loss = self._compute_loss(batch, replace(training, memory=memory[0] if memory else None))
            _backward(self.precision.scale(loss.value))
            return BatchLoss(loss, [loss], [_detach(loss.memory)])
        return self._of_parts([] if batch is None else parts_of(batch, self.parts), training, memory)

    def _of_parts(self, parts: Sequence[Batch], training: Training, memory: Sequence[Any]) -> BatchLoss:
        losses, memories = [], []
        for number, part in enumerate(parts):
            previous = memory[number] if number < len(memory) else None
            loss = self._compute_loss(part, replace(training, memory=previous))
            _backward(self.precision.scale(loss.value * loss.weight.detach()))
            losses.append(replace(loss, value=loss.value.detach(), memory=None))
            memories.append(_detach(loss.memory))
        value, weight = self._totals(losses)
        if self.group is not ALONE:
            value, weight = self.group.add_gradients(self.model, value, weight)
        for each in self.model.parameters():
            if each.grad is not None:
                gradient_entries(each).div_(weight)
        return BatchLoss(Loss(value / weight, weight), losses, memories)

    def _totals(self, losses: Sequence[Loss]) -> tuple[Tensor, Tensor]:
        """Return the sum of losses over target tokens [] and the number of target tokens []."""
        zero = torch.zeros((), dtype=torch.float64, device=self.device)
        value = sum(((loss.value * loss.weight).double() for loss in losses), zero)
        return value, sum((loss.weight.double() for loss in losses), zero)

    def _compute_loss(self, batch: Batch, training: Training) -> Loss:
        with self.precision.forward():
            loss = self.loss(batch.to(self.device), training)
        check_loss(loss, self.model)
        if not loss.value.requires_grad:
            method = named(self.model, "loss")
            raise PluginError(f"{method} returned a value without a gradient; it must depend on trainable weights.")
        return loss


def _backward(value: Tensor) -> None:
    value.backward(torch.ones_like(value))  # type: ignore[no-untyped-call]


def _detach(memory: Any) -> Any:
    return None if memory is None else memory.change(Tensor.detach)
