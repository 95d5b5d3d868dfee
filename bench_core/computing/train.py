"""The training loop: updates, evaluations, and selection of the best weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from bench_core.computing.checkpoint import Checkpoints
from bench_core.computing.guards import check_loss, named
from bench_core.computing.optimizers import gradient_entries, optimizers
from bench_core.data import Batch, Purpose
from bench_core.errors import PluginError, Stopped, SuiteError, TrainingError
from bench_core.model import Loss, Training
from bench_core.random_numbers import Noise
from bench_core.suites.training import Phase, TrainingConfig
from bench_core.task import Size, Task


@dataclass(frozen=True)
class Selection:
    """Checkpoint selection: a score of the model, and whether higher (+1) or lower (-1) is better."""

    judge: Callable[[Any], float]
    better: int
    name: str


@dataclass
class Progress:
    """The progress of a training: all state besides weights and optimizer."""

    planned: list[int] = field(default_factory=list)  # updates of each phase
    phase: int = 0
    step: int = 0
    first: int = 0  # step at which the phase began
    epoch: int = 0
    batch: int = 0  # batches of the epoch that are done
    scale: float = 1.0  # of the learning rate, by the plateau schedule
    best: float | None = None
    stale: int = 0  # evaluations without progress
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Trainer:
    """Trains one model on one task; `run` loads the best weights into the model and returns the history."""

    model: Any  # an nn.Module that is a Model
    task: Task
    config: TrainingConfig
    noise: Noise
    device: torch.device
    selection: Selection
    bf16: bool = False
    tell: Callable[[str, float], None] = lambda text, share: None
    checkpoints: Checkpoints | None = None

    def __post_init__(self) -> None:
        self.progress = Progress()
        self.optimizers = optimizers(self.model, self.config, self.device)
        self.size = Size(self.config.batch_size, self.config.batch_unit)
        self.memory: Any = None
        self.best: dict[str, Tensor] = {}
        self.losses = Average()  # since the last evaluation

    def run(self) -> list[dict[str, Any]]:
        """Train in phases, each starting from the best weights of the previous one.

        Resumes from the last checkpoint, if there is one, bit-identical to an uninterrupted training. Raises Stopped,
        after a checkpoint, at the time limit.
        """
        phases, resumed = self.config.phases or (Phase(),), self._resume()
        progress = self.progress
        if not resumed:
            progress.planned = [self._updates(phase) for phase in phases]
        for number in range(progress.phase, len(phases)):
            phase = phases[number]
            if not resumed:
                self._reset(phase.reset)
                progress.phase, progress.first = number, progress.step
                progress.best, progress.stale, self.best = None, 0, {}
            resumed = False
            self._phase(phase, progress.first + progress.planned[number])
            self.model.load_state_dict(self.best)
        return progress.history

    def _phase(self, phase: Phase, end: int) -> None:
        """Update until the last step of the phase, or until patience is exhausted."""
        settings, every, progress = phase.model_extra or {}, self.config.evaluate_every, self.progress
        while progress.step < end and not self._exhausted():
            before = progress.step
            for batch, last in _with_last(islice(self._epoch(progress.epoch), progress.batch, None)):
                self._update(batch, phase.lr or self.config.lr, settings)
                progress.batch += 1
                if last:
                    progress.epoch, progress.batch = progress.epoch + 1, 0
                self._tell()
                if progress.step == end or (progress.step % every == 0 if every else last):
                    self._evaluate()
                self._keep()
                if progress.step == end or self._exhausted():
                    break
            if progress.step == before:
                raise TrainingError("the training split has no batches. Is it empty?")
        if progress.batch:  # the phase ended inside of an epoch, and the next begins with another
            progress.epoch, progress.batch = progress.epoch + 1, 0
        if not self.best:  # no updates: the weights are judged as they are
            self._evaluate()

    def _epoch(self, number: int) -> Iterator[Batch]:
        noise = self.noise.fork("order").fork(number)
        return self.task.batches("train", Purpose.TRAIN, self.size, noise)

    def _keep(self) -> None:
        """Write a checkpoint if one is due; raise Stopped at the time limit."""
        kept = self.checkpoints
        if kept is None or not (kept.due() or kept.over()):
            return
        cuda = self.device.type == "cuda"
        state = {
            "progress": asdict(self.progress),
            "best": self.best,
            "optimizers": [optimizer.state_dict()["state"] for optimizer in self.optimizers],
            "losses": vars(self.losses),
            "memory": self.memory,
            "generators": [torch.get_rng_state(), torch.cuda.get_rng_state(self.device) if cuda else None],
        }
        kept.save(self.progress.step, self.model, state)
        if kept.over():
            raise Stopped

    def _resume(self) -> bool:
        """Restore the last checkpoint; return whether there is one."""
        kept = self.checkpoints.last(self.model, self.device) if self.checkpoints else None
        if kept is None:
            return False
        self.progress = type(self.progress)(**kept["progress"])
        self.best, self.memory = kept["best"], kept["memory"]
        for optimizer, state in zip(self.optimizers, kept["optimizers"], strict=True):
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        vars(self.losses).update(kept["losses"])
        processor, device = kept["generators"]
        torch.set_rng_state(processor.cpu())
        if device is not None:
            torch.cuda.set_rng_state(device.cpu(), self.device)
        return True

    def _update(self, batch: Batch, rate: float, settings: Mapping[str, Any]) -> None:
        """Perform one update; raise TrainingError if loss or gradient is not finite."""
        self.model.train()
        batch = batch.change(lambda tensor: tensor.to(self.device))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * self._rate()
            optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            loss = self._loss(batch, settings)
        loss.value.backward(torch.ones_like(loss.value))  # type: ignore[no-untyped-call]
        norm = self._clip()
        self._check(loss, norm)
        self._step()
        self.memory = loss.memory.change(Tensor.detach) if loss.memory is not None else None
        self.progress.step += 1
        self.losses.add(loss, norm)

    def _loss(self, batch: Batch, settings: Mapping[str, Any]) -> Loss:
        loss: Loss = self.model.loss(batch, self._training(batch, settings))
        check_loss(loss, self.model)
        if not loss.value.requires_grad:
            who = named(self.model, "loss")
            raise PluginError(f"{who} gave a value without a gradient; it is to come of weights.")
        return loss

    def _check(self, loss: Loss, norm: Tensor) -> None:
        """Raise TrainingError if loss or gradient is not finite, or the loss has no weight."""
        if not self._sound(loss, norm):
            place = self.checkpoints.weights if self.checkpoints else None
            kept = f" The last good weights are kept: `initial: {place}` begins with them." if place else ""
            raise TrainingError(f"{self._broken(loss.value, loss.weight, norm)}{kept}")

    def _sound(self, loss: Loss, norm: Tensor) -> Tensor:
        """Return whether loss and gradient are finite, and the weight is finite and positive."""
        return torch.isfinite(loss.value.detach() + norm) & (loss.weight > 0) & (loss.weight < torch.inf)

    def _broken(self, value: Tensor, weight: Tensor, norm: Tensor) -> str:
        if not 0 < weight.item() < math.inf:
            return f"step {self.progress.step + 1}: the loss has the weight {weight.item():g}, not its target tokens."
        return (
            f"step {self.progress.step + 1}: the loss is {value.item():g} and the gradient's norm {norm.item():g}. "
            "Lower `lr`, set `clip`, or train in fp32."
        )

    def _step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def _training(self, batch: Batch, settings: Mapping[str, Any]) -> Training:
        step, total, epoch = self.progress.step, sum(self.progress.planned), self.progress.epoch
        memory, noise = self.memory if batch.continues else None, self.noise.fork("loss").fork(step)
        return Training(step, total, epoch, self.config.epochs or max(1, epoch + 1), noise, memory, settings)

    def _clip(self) -> Tensor:
        """Scale the gradient g by min(1, clip / ||g||), if `clip` is set; return ||g|| before."""
        gradients = [gradient_entries(weights) for weights in self.model.parameters() if weights.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        if self.config.clip is not None:
            torch._foreach_mul_(gradients, (self.config.clip / norm).clamp(max=1.0))
        return norm

    def _rate(self) -> float:
        """Return the factor on the learning rate at the next step."""
        step, total, warmup = self.progress.step + 1, max(1, sum(self.progress.planned)), self.config.warmup
        if step < warmup:
            return step / warmup
        done = min(1.0, (step - warmup) / max(1, total - warmup))
        return {
            "constant": 1.0,
            "plateau": self.progress.scale,
            "inverse-sqrt": math.sqrt(warmup / step),
            "linear": 1 - done,
            "cosine": 0.5 * (1 + math.cos(math.pi * done)),
        }[self.config.schedule]

    def _evaluate(self) -> None:
        """Evaluate the weights, keep them if they are the best, and add an entry to the history."""
        progress = self.progress
        with evaluating(self.model):
            value = self.selection.judge(self.model)
        improved = self._improves(value, progress.best)
        if improved or not self.best:
            progress.best, progress.stale = value if improved else None, 0
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        else:
            progress.stale += 1
            progress.scale *= self.config.factor if self.config.schedule == "plateau" else 1.0
        progress.history.append({**self._entry(value, improved), **self.losses.values()})
        self.losses = Average()
        self._tell(f", {self.selection.name} {value:.4g}")

    def _improves(self, value: float, best: float | None) -> bool:
        return not math.isnan(value) and (best is None or (value - best) * self.selection.better > 0)

    def _entry(self, value: float, improved: bool) -> dict[str, Any]:
        """Return the history entry of an evaluation, without losses."""
        return {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "lr": self.optimizers[0].param_groups[0]["lr"],
            self.selection.name: value,
            "best": improved,
        }

    def _tell(self, more: str = "") -> None:
        total = sum(self.progress.planned)
        self.tell(f"step {self.progress.step:,} of {total:,}{more}", self.progress.step / max(1, total))

    def _exhausted(self) -> bool:
        return self.config.patience is not None and self.progress.stale >= self.config.patience

    def _updates(self, phase: Phase) -> int:
        """Return the number of updates of a phase: the minimum of its updates and epochs."""
        updates, epochs = phase.updates, phase.epochs
        if updates is None and epochs is None:
            updates, epochs = self.config.updates, self.config.epochs
        if updates is None and epochs is None:
            epochs = 10
        lasting = math.inf if epochs is None else epochs * max(1, sum(1 for _ in self._epoch(0)))
        return int(min(lasting, math.inf if updates is None else updates))

    def _reset(self, names: tuple[str, ...]) -> None:
        """Reset modules: their weights by `reset_parameters`, and their optimizer state."""
        modules = dict(self.model.named_modules())
        for name in names:
            if name not in modules:
                known = ", ".join(filter(None, modules))
                raise SuiteError(f"phases reset {name!r}, but the model's modules are: {known}.")
            for module in modules[name].modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
            for parameter in modules[name].parameters():
                for optimizer in self.optimizers:
                    optimizer.state.pop(parameter, None)


def _with_last(batches: Iterator[Batch]) -> Iterator[tuple[Batch, bool]]:
    """Yield batches, each with whether it is the last."""
    for batch in batches:
        for following in batches:
            yield batch, False
            batch = following
        yield batch, True


class Average:
    """Mean losses of several batches, weighted by target tokens; does not synchronize the device before `values`.

    A term that some batches lack is averaged over those that have it.
    """

    def __init__(self) -> None:
        self.totals: dict[str, Tensor] = {}
        self.weights: dict[str, Tensor] = {}

    def add(self, loss: Loss, gradient_norm: Tensor | None = None) -> None:
        """Add a batch."""
        weight = loss.weight.detach().double()
        norm = {} if gradient_norm is None else {"gradient_norm": gradient_norm}
        for name, value in {"loss": loss.value, **loss.parts, **norm}.items():
            self.totals[name] = self.totals.get(name, 0) + value.detach().double() * weight
            self.weights[name] = self.weights.get(name, 0) + weight

    def means(self) -> dict[str, Tensor]:
        """Return the current means, of a single model [], or of copies [S]."""
        return {name: total / self.weights[name] for name, total in self.totals.items()}

    def values(self) -> dict[str, float]:
        """Return the current means of a single model."""
        return {name: float(mean) for name, mean in self.means().items()}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off inside the block, and restore torch's generator."""
    was, state = model.training, torch.get_rng_state()
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was)
        torch.set_rng_state(state)


def mean_loss(model: Any, task: Task, split: str, size: Size, noise: Noise, device: torch.device) -> float:
    """Return the training loss on a split, per target token."""
    average, memory = Average(), None
    for step, batch in enumerate(task.batches(split, Purpose.TRAIN, size)):
        on_device = batch.change(lambda tensor: tensor.to(device))
        carried = memory if batch.continues else None
        loss = model.loss(on_device, Training(0, 1, 0, 1, noise.fork(step), carried))
        check_loss(loss, model)
        memory = loss.memory
        average.add(loss)
    if not average.totals:
        raise TrainingError(f"the split {split!r} has no batches. Is it empty?")
    return average.values()["loss"]
