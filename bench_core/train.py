"""The training loop: updates, evaluations, and the weights that are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bench_core.data import Batch, Purpose
from bench_core.errors import PluginError, SuiteError, TrainingError
from bench_core.model import Training
from bench_core.schema import Phase, TrainingConfig
from bench_core.task import Size

if TYPE_CHECKING:
    from bench_core.model import Loss
    from bench_core.noise import Noise
    from bench_core.task import Task

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}


@dataclass(frozen=True)
class Selection:
    """How weights are judged: a number of the model, and whether higher (+1) or lower (-1) is better."""

    judge: Callable[[Any], float]
    better: int
    name: str


@dataclass
class Progress:
    """Where a training stands; all that changes besides weights and optimizer state."""

    step: int = 0
    epoch: int = 0
    scale: float = 1.0  # of the learning rate, by the plateau schedule
    best: float | None = None
    stale: int = 0  # evaluations without progress
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Trainer:
    """Trains one model on one task; `run` leaves the best weights in the model and returns the history."""

    model: Any  # an nn.Module that is a Model
    task: Task
    config: TrainingConfig
    noise: Noise
    device: torch.device
    selection: Selection
    bf16: bool = False
    tell: Callable[[str, float], None] = lambda text, share: None

    def __post_init__(self) -> None:
        self.progress = Progress()
        self.optimizer = self._optimizer()
        self.size = Size(self.config.batch_size, self.config.batch_unit)
        self.memory: Any = None
        self.best: dict[str, Tensor] = {}

    def run(self) -> list[dict[str, Any]]:
        """Train phase after phase, each beginning with the best weights of the one before."""
        phases = self.config.phases or (Phase(),)
        self.planned = [self._updates(phase) for phase in phases]
        for number, phase in enumerate(phases):
            self._reset(phase.reset)
            self.progress.best, self.progress.stale = None, 0
            self._phase(phase, self.progress.step + self.planned[number])
            self.model.load_state_dict(self.best)
        return self.progress.history

    def _phase(self, phase: Phase, end: int) -> None:
        """Update until the phase's last step, or until patience ends."""
        settings = phase.model_extra or {}
        while self.progress.step < end:
            losses, before = Average(), self.progress.step
            for batch in self._epoch():
                losses.add(self._update(batch, phase.lr or self.config.lr, settings))
                self._tell()
                due = self.config.evaluate_every and self.progress.step % self.config.evaluate_every == 0
                if due or self.progress.step == end:
                    losses = self._evaluate(losses)
                if self.progress.step == end or self._exhausted():
                    break
            if self.progress.step == before:
                raise TrainingError("the training split gives no batches. Is it empty?")
            self.progress.epoch += 1
            if losses.weight and not self.config.evaluate_every:
                self._evaluate(losses)
            if self._exhausted():
                return

    def _epoch(self) -> Iterator[Batch]:
        noise = self.noise.fork("order").fork(self.progress.epoch)
        return self.task.batches("train", Purpose.TRAIN, self.size, noise)

    def _update(self, batch: Batch, rate: float, settings: Mapping[str, Any]) -> Loss:
        """Take one step of the optimizer; raise TrainingError if loss or gradient is not finite."""
        self.model.train()
        batch = batch.change(lambda tensor: tensor.to(self.device))
        for group in self.optimizer.param_groups:
            group["lr"] = rate * self._rate()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            loss: Loss = self.model.loss(batch, self._training(batch, settings))
        loss.value.backward()  # type: ignore[no-untyped-call]
        norm = self._clip()
        if not torch.isfinite(loss.value.detach() + norm):
            raise TrainingError(
                f"step {self.progress.step + 1}: the loss is {loss.value.item():g} and the gradient's norm "
                f"{norm.item():g}. Lower `lr`, set `clip`, or train in fp32."
            )
        self.optimizer.step()
        self.memory = loss.memory.change(Tensor.detach) if loss.memory is not None else None
        self.progress.step += 1
        return loss

    def _training(self, batch: Batch, settings: Mapping[str, Any]) -> Training:
        step, total = self.progress.step, sum(self.planned)
        epochs = self.config.epochs or max(1, self.progress.epoch + 1)
        memory = self.memory if batch.continues else None
        return Training(
            step, total, self.progress.epoch, epochs, self.noise.fork("loss").fork(step), memory, settings
        )

    def _clip(self) -> Tensor:
        """Return the gradient's norm before clipping, or 0 where it is not asked for."""
        if self.config.clip is None:
            return torch.zeros((), device=self.device)
        return nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)

    def _rate(self) -> float:
        """Return the factor of the learning rate at the coming step."""
        step, total, warmup = self.progress.step + 1, max(1, sum(self.planned)), self.config.warmup
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

    def _evaluate(self, losses: Average) -> Average:
        """Judge the weights, keep them if they are the best, and note it all; return a new average to fill."""
        progress = self.progress
        with evaluating(self.model):
            value = self.selection.judge(self.model)
        best = progress.best
        improved = not math.isnan(value) and (best is None or (value - best) * self.selection.better > 0)
        if improved or not self.best:
            progress.best, progress.stale = value if improved else None, 0
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        else:
            progress.stale += 1
            progress.scale *= self.config.factor if self.config.schedule == "plateau" else 1.0
        rate = self.optimizer.param_groups[0]["lr"]
        entry = {
            "step": progress.step,
            "epoch": progress.epoch,
            "lr": rate,
            self.selection.name: value,
            "best": improved,
        }
        progress.history.append({**entry, **losses.values()})
        self._tell(f", {self.selection.name} {value:.4g}")
        return Average()

    def _tell(self, more: str = "") -> None:
        total = sum(self.planned)
        self.tell(f"step {self.progress.step:,} of {total:,}{more}", self.progress.step / total)

    def _exhausted(self) -> bool:
        return self.config.patience is not None and self.progress.stale >= self.config.patience

    def _updates(self, phase: Phase) -> int:
        """Return how many updates a phase takes: the fewer of its updates and its epochs."""
        updates, epochs = phase.updates, phase.epochs
        if updates is None and epochs is None:
            updates, epochs = self.config.updates, self.config.epochs
        if updates is None and epochs is None:
            epochs = 10
        lasting = math.inf if epochs is None else epochs * self._batches()
        return int(min(lasting, math.inf if updates is None else updates))

    def _batches(self) -> int:
        """Return how many batches the first epoch has."""
        return max(1, sum(1 for _ in self._epoch()))

    def _optimizer(self) -> torch.optim.Optimizer:
        config = self.config
        own: Any = {"momentum": config.momentum} if config.optimizer == "sgd" else {"betas": config.betas}
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        if not parameters:
            raise PluginError(f"{type(self.model).__name__} has no parameters to train.")
        kind: Any = OPTIMIZERS[config.optimizer]
        fused = self.device.type in ("cpu", "cuda")
        optimizer: torch.optim.Optimizer = kind(
            parameters, lr=config.lr, weight_decay=config.weight_decay, fused=fused, **own
        )
        return optimizer

    def _reset(self, names: tuple[str, ...]) -> None:
        """Start modules anew: their weights by their own `reset_parameters`, and the optimizer's memory of them."""
        modules = dict(self.model.named_modules())
        for name in names:
            if name not in modules:
                raise SuiteError(
                    f"phases reset {name!r}, but the model's modules are: {', '.join(filter(None, modules))}."
                )
            for module in modules[name].modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
            for parameter in modules[name].parameters():
                self.optimizer.state.pop(parameter, None)


class Average:
    """Losses of several batches, weighed by their target tokens; no waiting for the device before `values`."""

    def __init__(self) -> None:
        self.totals: dict[str, Tensor] = {}
        self.weight: Any = 0

    def add(self, loss: Loss) -> None:
        """Count one batch."""
        weight = loss.weight.detach().double()
        for name, value in {"loss": loss.value, **loss.parts}.items():
            self.totals[name] = self.totals.get(name, 0) + value.detach().double() * weight
        self.weight = self.weight + weight

    def values(self) -> dict[str, float]:
        """Return the means so far."""
        return {name: float(total / self.weight) for name, total in self.totals.items()}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off for a while, and leave torch's generator as it was."""
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
        memory = loss.memory
        average.add(loss)
    if not average.weight:
        raise TrainingError(f"the split {split!r} gives no batches. Is it empty?")
    return average.values()["loss"]
