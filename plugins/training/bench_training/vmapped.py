"""Trains several seeds of a model by `torch.func.vmap`, each on batches in its own order.

They are updated like a single model whose weights have an additional dimension; for a small model on a GPU, an update
costs about as much as for one seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from bench_core.computing.evaluating import evaluating
from bench_core.computing.result_checks import check_loss
from bench_core.data import Batch, Purpose
from bench_core.errors import PluginError, SuiteError, TrainingError
from bench_core.host_copies import on_host
from bench_core.model import Loss, Training
from bench_core.observer import TrainingStarted
from bench_core.random_numbers import Rng
from bench_training.clipping import clip_copies
from bench_training.evaluation import Selection
from bench_training.log import Average
from bench_training.resuming import TrainingProgress
from bench_training.trainer import Trainer
from bench_training.update import BatchLoss

Weights: TypeAlias = Mapping[str, Tensor]


@dataclass(frozen=True)
class StackedRngs(Rng):
    """The generators of several copies inside `torch.func.vmap`, each with its own key; `key` is the first key."""

    keys: tuple[int, ...]
    copy: Tensor  # [], index of the current copy; [S] under vmap

    def fork(self, purpose: str | int) -> StackedRngs:
        keys = tuple(Rng(key).fork(purpose).key for key in self.keys)
        return StackedRngs(keys[0], keys, self.copy)

    def uniform(self, ids: Tensor, step: int | Tensor = 0, size: int | None = None) -> Tensor:
        key: Any = torch.tensor(self.keys, device=ids.device).index_select(0, self.copy.view(1))[0]
        return Rng(key).uniform(ids, step, size)


class _VmapLoss(nn.Module):
    """A module whose `forward` is `vmap_loss`, for `functional_call`."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, training: Training) -> Loss:
        loss: Loss = self.model.vmap_loss(batch, training)
        check_loss(loss, self.model, "vmap_loss")
        if loss.memory is not None:
            raise SuiteError(
                f"{type(self.model).__name__} carries a memory, which vmapped seeds do not support. "
                "Set `training: {vmap_seeds: false}`."
            )
        return loss


def stacked(batches: Sequence[Batch]) -> Batch:
    """Stack the batches of several copies [S, N, *].

    Shorter targets are padded with EOS; missing rows have no target tokens.
    """
    columns = iter([*zip(*map(_tensors, batches), strict=True)])
    return batches[0].change(lambda _: _stack(next(columns)))


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    if len({tensor.shape for tensor in tensors}) == 1:
        return torch.stack([*tensors])
    shape = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    padded = tensors[0].new_zeros(len(tensors), *shape)
    for number, tensor in enumerate(tensors):
        padded[number][tuple(map(slice, tensor.shape))] = tensor
    return padded


def _tensors(batch: Batch) -> list[Tensor]:
    """Return the tensors of a batch in the order of `change`."""
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    batch.change(note)
    return tensors


def _rows_at_steps(batch: Batch) -> tuple[int, ...]:
    """Return, for each t, the number of rows with a t-th token: the maximum over the copies of a stacked batch."""
    steps = torch.arange(batch.gold.shape[-1])[:, None, None]
    rows = (steps < on_host(batch.length)).sum(2).amax(1)  # [T]
    return tuple(number for number in rows.tolist() if number)


class Stack(nn.Module):
    """S copies of a model as one module, with stacked weights and persistent buffers [S, *]."""

    def __init__(self, copies: Sequence[Any]) -> None:
        super().__init__()
        if any(isinstance(module, nn.Embedding) and module.sparse for module in copies[0].modules()):
            raise SuiteError("vmapped seeds do not support sparse gradients. Set the model's `sparse: false`.")
        self.copies = (*copies,)  # a tuple, so that their weights are not registered in this module
        self.call = (_VmapLoss(copies[0]),)
        weights, buffers = stack_module_state([*copies])
        persistent = copies[0].state_dict()
        # Names of parameters must not contain dots.
        for name, tensor in weights.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(tensor.detach(), tensor.requires_grad))
        for name, tensor in buffers.items():
            if name in persistent:
                self.register_buffer(name.replace(".", "/"), tensor.detach())

    def losses(self, batch: Batch, training: Training, keys: Sequence[int]) -> Loss:
        """Return the loss of each copy on its part of a `stacked` batch, with its own random numbers.

        Values, weights and parts are [S].
        """

        def loss(
            state: Mapping[str, Tensor], copy: Tensor, *tensors: Tensor
        ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
            rng, columns = StackedRngs(keys[0], (*keys,), copy), iter(tensors)
            rows = batch.change(lambda _: next(columns))
            result = functional_call(self.call[0], dict(state), (rows, replace(training, rng=rng)))
            return result.value, result.weight, dict(result.parts)

        training = replace(training, rows=_rows_at_steps(batch))
        state = {f"model.{name}": tensor for name, tensor in self._named_tensors()}
        numbers = torch.arange(len(self.copies), device=batch.ids.device)
        return Loss(*vmap(loss, randomness="error")(state, numbers, *_tensors(batch)))

    @torch.no_grad()
    def at(self, number: int) -> Any:
        """Return copy `number` of the model, with its current weights."""
        copy = self.copies[number]
        state = {**dict(copy.named_parameters()), **dict(copy.named_buffers())}
        for name, tensor in self._named_tensors():
            state[name].copy_(tensor[number])
        return copy

    def train(self, mode: bool = True) -> Stack:
        self.copies[0].train(mode)
        return super().train(mode)

    def _named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in (*self.named_parameters(), *self.named_buffers()):
            yield name.replace("/", "."), tensor


@dataclass
class CopyProgress:
    """The progress of a copy, except its weights."""

    best: float | None = None
    failure: str | None = None  # why training of the copy ended
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class JointProgress(TrainingProgress):
    """The joint progress of several copies."""

    copies: list[CopyProgress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.copies = [CopyProgress(**copy) if isinstance(copy, dict) else copy for copy in self.copies]  # from JSON


@dataclass
class JointTrainer(Trainer):
    """Trains the copies in a Stack; `progress.copies` has the progress of each copy.

    Each copy has its own initial weights, batch order, random numbers, checkpoint selection, and failure, as in
    separate training runs. A failed copy keeps its weights while the others continue.
    """

    rngs: Sequence[Rng] = ()  # one for each copy; the first is `rng`
    selections: Sequence[Selection] = ()  # one for each copy

    def __post_init__(self) -> None:
        super().__post_init__()
        self.progress: JointProgress = JointProgress(copies=[CopyProgress() for _ in self.rngs])
        if self.config.compile:
            self.warn("compile: vmapped seeds are trained uncompiled.")

    def _epoch(self, number: int) -> Iterator[Batch]:
        """Yield stacked batches of all copies, each in its own order."""
        orders = [rng.fork("order").fork(number) for rng in self.rngs]
        each = [self.task.batches("train", Purpose.TRAIN, self.size, order) for order in orders]
        for batches in zip(*each, strict=True):
            if batches[0].continues:
                raise SuiteError(
                    "windows of a stream carry a memory, which vmapped seeds do not support. "
                    "Set `training: {vmap_seeds: false}`."
                )
            yield stacked(batches)

    def _gradient(self, batch: Batch | None, training: Training, memory: list[Any]) -> BatchLoss:
        assert batch is not None
        keys = [rng.fork("loss").fork(self.progress.step).key for rng in self.rngs]
        with self.arithmetic.forward():
            losses: Loss = self.model.losses(batch.to(self.device), training, keys)
        value = self.arithmetic.scale(losses.value)
        value.backward(torch.ones_like(value))  # type: ignore[no-untyped-call]
        return BatchLoss(losses, [losses], [])

    def _clip(self) -> Tensor:
        return clip_copies([*self.model.parameters()], self.config.clip)

    def _check(self) -> None:
        """Record failed copies; raise TrainingError if all have failed."""
        self.arithmetic.check()
        failures = self.divergence.failures()
        for copy, reason in zip(self.progress.copies, failures, strict=False):
            copy.failure = copy.failure or reason
        self._check_any()

    def _check_any(self) -> None:
        """Raise TrainingError if all copies have failed."""
        copies = self.progress.copies
        if all(copy.failure for copy in copies):
            raise TrainingError(f"all {len(copies)} seeds failed, the first at {copies[0].failure}")

    def _step(self) -> None:
        failed = [number for number, copy in enumerate(self.progress.copies) if copy.failure]
        weights = [each.detach() for each in self.model.parameters()]
        before = [each[failed] for each in weights] if failed else []
        super()._step()
        for each, values in zip(weights, before, strict=False):
            each[failed] = values

    def _hear_of_start(self) -> None:
        for number in range(len(self.progress.copies)):
            self.hear(TrainingStarted(self.progress.step, sum(self.progress.planned), copy=number))

    def _hear_of_means(self, means: Mapping[str, Tensor], copy: int = 0) -> None:
        for number, progress in enumerate(self.progress.copies):
            if progress.failure is None:
                super()._hear_of_means({name: mean[number] for name, mean in means.items()}, number)

    def _evaluate(self) -> None:
        """Evaluate each copy, keep its weights if they are its best so far, and extend the histories."""
        self._check()
        if self.average is not None:
            self.average.add_evaluation(self.model)
        self._hear_of_losses()
        values = self._with_average(self._evaluate_copies)
        self._check_any()
        self.losses, self.heard = Average(), Average()
        self._tell(f", {self.selection.name} {sum(values) / len(values):.4g} on average")

    def _evaluate_copies(self) -> list[float]:
        """Evaluate the copies that have not failed; return their metric values."""
        state, is_first = self.model.state_dict(), not self.best
        losses = {name: mean.tolist() for name, mean in self.losses.means().items()}
        if is_first:
            self.best = {name: tensor.detach().clone() for name, tensor in state.items()}
        values = []
        for number, copy in enumerate(self.progress.copies):
            if copy.failure:
                continue
            model = self.model.at(number)
            try:
                with self.task_lock, evaluating(model):
                    value = self.selections[number].judge(model)
            except PluginError as error:
                copy.failure = str(error)
                continue
            copy.best = None if is_first else copy.best
            improved = self._improves(value, copy.best)
            if improved:
                copy.best = value
                for name, tensor in self.best.items():
                    tensor[number] = state[name][number]
            means = {name: column[number] for name, column in losses.items()}
            copy.history.append({**self._entry(value, improved), **means})
            self._hear_of_evaluation(copy.history[-1], number)
            values.append(value)
        return values
