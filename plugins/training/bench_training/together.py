"""Trains several seeds of a model at once by `torch.func.vmap`, each on batches in its own order.

An update of all of them is that of a single model whose weights have
another dimension, which on a GPU costs about as much as an update of a small model alone.
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
from bench_core.random_numbers import Noise
from bench_training.clipping import clip_copies
from bench_training.evaluation import Selection
from bench_training.log import Average
from bench_training.resuming import Progress
from bench_training.trainer import Trainer
from bench_training.update import Computed

Weights: TypeAlias = Mapping[str, Tensor]


@dataclass(frozen=True)
class Noises(Noise):
    """Noise of several copies inside `torch.func.vmap`, each with its own key; `key` is that of the first."""

    keys: tuple[int, ...]
    copy: Tensor  # [] the one that is at work, of which vmap makes [S]

    def fork(self, purpose: str | int) -> Noises:
        keys = tuple(Noise(key).fork(purpose).key for key in self.keys)
        return Noises(keys[0], keys, self.copy)

    def uniform(self, ids: Tensor, step: int = 0, size: int | None = None) -> Tensor:
        key: Any = torch.tensor(self.keys, device=ids.device).index_select(0, self.copy.view(1))[0]
        return Noise(key).uniform(ids, step, size)


class _VmapLoss(nn.Module):
    """Makes `vmap_loss` the forward of a module, for torch's functional call."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, training: Training) -> Loss:
        loss: Loss = self.model.vmap_loss(batch, training)
        check_loss(loss, self.model, "vmap_loss")
        if loss.memory is not None:
            raise SuiteError(f"{type(self.model).__name__} carries a memory. Set `training: {{together: false}}`.")
        return loss


def stacked(batches: Sequence[Batch]) -> Batch:
    """Return the batches of several copies as one [S, N, *].

    Shorter targets are padded with stop, missing rows have no target tokens.
    """
    columns = iter([*zip(*map(_tensors, batches), strict=True)])
    return batches[0].change(lambda _: _stacked(next(columns)))


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    if len({one.shape for one in tensors}) == 1:
        return torch.stack([*tensors])
    shape = [max(sizes) for sizes in zip(*(one.shape for one in tensors), strict=True)]
    found = tensors[0].new_zeros(len(tensors), *shape)
    for number, one in enumerate(tensors):
        found[number][tuple(map(slice, one.shape))] = one
    return found


def _tensors(batch: Batch) -> list[Tensor]:
    """Return the tensors of a batch, in the order in which `change` finds them."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    batch.change(note)
    return found


def _rows_at_steps(batch: Batch) -> tuple[int, ...]:
    """Return how many rows at most, of any copy in a stacked batch, have a t-th token, for all t that one has."""
    steps = torch.arange(batch.gold.shape[-1])[:, None, None]
    rows = (steps < on_host(batch.length)).sum(2).amax(1)  # [T]
    return tuple(number for number in rows.tolist() if number)


class Stack(nn.Module):
    """S copies of a model as one, with stacked weights [S, *] and persistent buffers."""

    def __init__(self, copies: Sequence[Any]) -> None:
        super().__init__()
        if any(isinstance(module, nn.Embedding) and module.sparse for module in copies[0].modules()):
            raise SuiteError(
                "seeds with sparse gradients cannot be trained together. Set the model's `sparse: false`."
            )
        self.copies = (*copies,)  # a tuple, so that their weights are not among those of this module
        self.call = (_VmapLoss(copies[0]),)
        weights, buffers = stack_module_state([*copies])
        kept = copies[0].state_dict()
        # No module may give a name with a dot to weights of its own.
        for name, tensor in weights.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(tensor.detach(), tensor.requires_grad))
        for name, tensor in buffers.items():
            if name in kept:
                self.register_buffer(name.replace(".", "/"), tensor.detach())

    def losses(self, batch: Batch, training: Training, keys: Sequence[int]) -> Loss:
        """Return the loss of each copy with its own noise, on its own rows of a `stacked` batch.

        Values, weights and parts are [S].
        """

        def loss(
            own: Mapping[str, Tensor], copy: Tensor, *tensors: Tensor
        ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
            noise, columns = Noises(keys[0], (*keys,), copy), iter(tensors)
            rows = batch.change(lambda _: next(columns))
            found = functional_call(self.call[0], dict(own), (rows, replace(training, noise=noise)))
            return found.value, found.weight, dict(found.parts)

        training = replace(training, rows=_rows_at_steps(batch))
        own = {f"model.{name}": tensor for name, tensor in self._named()}
        numbers = torch.arange(len(self.copies), device=batch.ids.device)
        return Loss(*vmap(loss, randomness="error")(own, numbers, *_tensors(batch)))

    @torch.no_grad()
    def at(self, number: int) -> Any:
        """Return one of the copies, with its current weights."""
        copy = self.copies[number]
        own = {**dict(copy.named_parameters()), **dict(copy.named_buffers())}
        for name, tensor in self._named():
            own[name].copy_(tensor[number])
        return copy

    def train(self, mode: bool = True) -> Stack:
        self.copies[0].train(mode)
        return super().train(mode)

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in (*self.named_parameters(), *self.named_buffers()):
            yield name.replace("/", "."), tensor


@dataclass
class Copy:
    """The progress of one copy, besides its weights."""

    best: float | None = None
    failure: str | None = None  # why it is trained no more
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class JointProgress(Progress):
    """The progress of a training of several copies."""

    copies: list[Copy] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.copies = [Copy(**one) if isinstance(one, dict) else one for one in self.copies]  # from a checkpoint


@dataclass
class JointTrainer(Trainer):
    """Trains the copies of a Stack; `progress.copies` has the progress of each.

    Each copy trains as if alone: its initial weights, its batches in their own order, noise, checkpoint selection,
    and whether it fails. A failed copy keeps its weights, and the others continue.
    """

    noises: Sequence[Noise] = ()  # of each copy; `noise` is the first one
    selections: Sequence[Selection] = ()  # of each copy

    def __post_init__(self) -> None:
        super().__post_init__()
        self.progress: JointProgress = JointProgress(copies=[Copy() for _ in self.noises])
        if self.config.compile:
            self.warn("compile: seeds trained together are not compiled.")

    def _epoch(self, number: int) -> Iterator[Batch]:
        """Yield the batches of all copies, each in its own order, as one."""
        orders = [noise.fork("order").fork(number) for noise in self.noises]
        each = [self.task.batches("train", Purpose.TRAIN, self.size, order) for order in orders]
        for batches in zip(*each, strict=True):
            if batches[0].continues:
                raise SuiteError("windows of a stream continue from a memory. Set `training: {together: false}`.")
            yield stacked(batches)

    def _gradient(self, batch: Batch | None, training: Training, memory: list[Any]) -> Computed:
        assert batch is not None
        keys = [noise.fork("loss").fork(self.progress.step).key for noise in self.noises]
        with self.numbers.forward():
            losses: Loss = self.model.losses(batch.to(self.device), training, keys)
        value = self.numbers.scaled(losses.value)
        value.backward(torch.ones_like(value))  # type: ignore[no-untyped-call]
        return Computed(losses, [losses], [])

    def _clip(self) -> Tensor:
        return clip_copies([*self.model.parameters()], self.config.clip)

    def _check(self) -> None:
        """Record which copies fail; raise TrainingError if none is left."""
        self.numbers.check()
        broken = self.soundness.broken()
        for copy, reason in zip(self.progress.copies, broken, strict=False):
            copy.failure = copy.failure or reason
        self._check_any()

    def _check_any(self) -> None:
        """Raise TrainingError if all copies have failed."""
        copies = self.progress.copies
        if all(copy.failure for copy in copies):
            raise TrainingError(f"all {len(copies)} seeds failed; the first at {copies[0].failure}")

    def _step(self) -> None:
        failed = [number for number, copy in enumerate(self.progress.copies) if copy.failure]
        weights = [each.detach() for each in self.model.parameters()]
        before = [each[failed] for each in weights] if failed else []
        super()._step()
        for each, own in zip(weights, before, strict=False):
            each[failed] = own

    def _hear_of_start(self) -> None:
        for number in range(len(self.progress.copies)):
            self.hear(TrainingStarted(self.progress.step, sum(self.progress.planned), copy=number))

    def _hear_of_means(self, means: Mapping[str, Tensor], copy: int = 0) -> None:
        for number, one in enumerate(self.progress.copies):
            if one.failure is None:
                super()._hear_of_means({name: mean[number] for name, mean in means.items()}, number)

    def _evaluate(self) -> None:
        """Evaluate each copy, keep its weights if they are its best, and add entries to the histories."""
        self._check()
        if self.average is not None:
            self.average.evaluated(self.model)
        self._hear_of_losses()
        values = self._with_average(self._evaluate_copies)
        self._check_any()
        self.losses, self.heard = Average(), Average()
        self._tell(f", {self.selection.name} {sum(values) / len(values):.4g} on average")

    def _evaluate_copies(self) -> list[float]:
        """Evaluate the copies that have not failed; return their values."""
        state, begins = self.model.state_dict(), not self.best
        losses = {name: mean.tolist() for name, mean in self.losses.means().items()}
        if begins:
            self.best = {name: tensor.detach().clone() for name, tensor in state.items()}
        values = []
        for number, copy in enumerate(self.progress.copies):
            if copy.failure:
                continue
            model = self.model.at(number)
            try:
                with self.reading, evaluating(model):
                    value = self.selections[number].judge(model)
            except PluginError as error:
                copy.failure = str(error)
                continue
            copy.best = None if begins else copy.best
            improved = self._improves(value, copy.best)
            if improved:
                copy.best = value
                for name, tensor in self.best.items():
                    tensor[number] = state[name][number]
            own = {name: column[number] for name, column in losses.items()}
            copy.history.append({**self._entry(value, improved), **own})
            self._hear_of_evaluation(copy.history[-1], number)
            values.append(value)
        return values
