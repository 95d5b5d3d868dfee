"""Trains several seeds of a model at once by `torch.func.vmap`.

They share the batches, those of the first seed. An update of all of them is that of a single model whose weights have
another dimension, which on a GPU costs about as much as an update of a small model alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from bench_core.computing.guards import check_loss
from bench_core.computing.train import Average, Progress, Selection, Trainer, evaluating
from bench_core.data import Batch
from bench_core.errors import PluginError, SuiteError, TrainingError
from bench_core.model import Loss, Training
from bench_core.random_numbers import Noise


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


class Stack(nn.Module):
    """S copies of a model as one, with stacked weights [S, *] and persistent buffers."""

    def __init__(self, copies: Sequence[Any]) -> None:
        super().__init__()
        if any(isinstance(module, nn.Embedding) and module.sparse for module in copies[0].modules()):
            way = "Set the model's `sparse: false`."
            raise SuiteError(f"seeds with sparse gradients cannot be trained together. {way}")
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
        """Return the loss of each copy with its own noise: values, weights and parts are [S]."""

        def loss(own: Mapping[str, Tensor], copy: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
            noise = Noises(keys[0], (*keys,), copy)
            found = functional_call(self.call[0], dict(own), (batch, replace(training, noise=noise)))
            return found.value, found.weight, dict(found.parts)

        own = {f"model.{name}": tensor for name, tensor in self._named()}
        numbers = torch.arange(len(self.copies), device=batch.ids.device)
        return Loss(*vmap(loss, randomness="error")(own, numbers))

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
    """Trains the copies of a Stack on the same batches; `progress.copies` has the progress of each.

    Apart from the batches, each copy trains as if alone: its initial weights, noise, checkpoint selection, and
    whether it fails. A failed copy keeps its weights, and the others continue.
    """

    noises: Sequence[Noise] = ()  # of each copy; `noise` is the first one, which orders the batches
    selections: Sequence[Selection] = ()  # of each copy

    def __post_init__(self) -> None:
        super().__post_init__()
        self.progress: JointProgress = JointProgress(copies=[Copy() for _ in self.noises])

    def _loss(self, batch: Batch, settings: Mapping[str, Any]) -> Loss:
        if batch.continues:
            raise SuiteError("windows of a stream continue from a memory. Set `training: {together: false}`.")
        keys = [noise.fork("loss").fork(self.progress.step).key for noise in self.noises]
        losses: Loss = self.model.losses(batch, self._training(batch, settings), keys)
        return losses

    def _clip(self) -> Tensor:
        return clip_each(self.model.parameters(), self.config.clip)

    def _check(self, loss: Loss, norm: Tensor) -> None:
        """Record which copies fail; raise TrainingError if none is left."""
        copies = self.progress.copies
        for number, (copy, fine) in enumerate(zip(copies, self._sound(loss, norm).tolist(), strict=True)):
            if not fine and copy.failure is None:
                copy.failure = self._broken(loss.value[number], loss.weight[number], norm[number])
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

    def _evaluate(self) -> None:
        """Evaluate each copy, keep its weights if they are its best, and add entries to the histories."""
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
                with evaluating(model):
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
            values.append(value)
        self._check_any()
        self.losses = Average()
        self._tell(f", {self.selection.name} {sum(values) / len(values):.4g} on average")


def clip_each(weights: Iterable[Tensor], most: float | None) -> Tensor:
    """Scale the gradient of each copy by min(1, most / norm), unless `most` is None; return the norms before [S]."""
    gradients = [one.grad for one in weights if one.grad is not None]
    norm: Tensor = torch.linalg.vector_norm(torch.cat([one.reshape(len(one), -1) for one in gradients], 1), dim=1)
    if most is not None:
        factor = (most / norm).clamp(max=1.0)
        for one in gradients:
            one.mul_(factor.view(-1, *[1] * (one.dim() - 1)))
    return norm
