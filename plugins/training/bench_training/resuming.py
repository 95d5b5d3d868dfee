"""The progress of a training run, and how it resumes from a checkpoint."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from bench_core.errors import Stopped, TrainingError
from bench_training.averaging import WeightAverage
from bench_training.checkpoint import Checkpoints
from bench_training.data_parallel import DataParallel
from bench_training.log import Average
from bench_training.optimizers import load_state, state_of
from bench_training.precision import Precision
from bench_training.schedules import LearningRates


@dataclass
class TrainingProgress:
    """The progress of a training run: its state except weights and optimizer."""

    planned: list[int] = field(default_factory=list)  # number of updates of each phase
    batch_size: int = 0  # result of `batch_size: auto`
    epoch_length: int = 0  # number of batches; 0 until counted
    phase: int = 0
    step: int = 0
    first: int = 0  # step at which the phase began
    epoch: int = 0
    batch: int = 0  # number of completed batches in the epoch
    best: float | None = None
    stale: int = 0  # evaluations without progress
    stop_best: float | None = None  # best value of the early-stopping metric
    stop_stale: int = 0  # evaluations without progress in the early-stopping metric
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def share_of_phase(self) -> float:
        """The completed share of the current phase's planned updates; 0 before planning."""
        return (self.step - self.first) / max(1, self.planned[self.phase]) if self.planned else 0.0


class Resumable(ABC):
    """A training run that resumes from its last checkpoint as if it had never been interrupted."""

    model: Any
    device: torch.device
    checkpoints: Checkpoints | None
    group: DataParallel  # the processes that share each batch
    progress: TrainingProgress
    arithmetic: Precision
    average: WeightAverage | None
    optimizers: list[torch.optim.Optimizer]  # optimizers of the current phase
    common_optimizers: list[torch.optim.Optimizer]  # shared by phases without optimizers of their own
    rates: LearningRates  # rates of the current phase
    common_rates: LearningRates
    memory: list[Any]  # model state after the last batch, for each of its parts
    best: dict[str, Tensor]
    losses: Average  # mean losses since the last evaluation
    heard: Average  # the part of `losses` that was already reported

    @abstractmethod
    def _check(self) -> None:
        """Raise TrainingError if the loss or gradient of an update was not finite; waits for the device."""

    def _last_checkpoint(self) -> Any:
        """Load the weights of the last checkpoint and return its state; None without a checkpoint.

        Process 0 looks first because it sets damaged checkpoints aside.
        """
        checkpoints, group, state = self.checkpoints, self.group, None
        if checkpoints is None:
            return None
        if group.rank == 0:
            state = checkpoints.last(self.model, self.device)
        (step,) = group.numbers([0 if state is None else state["progress"]["step"]])
        if group.rank and step:
            state = checkpoints.last(self.model, self.device)
            if state is None or state["progress"]["step"] != step:
                raise TrainingError(
                    "the processes of this training run found different checkpoints. Run the suite again."
                )
        return state

    def _save_if_due(self) -> None:
        """Write a checkpoint if one is due; raise Stopped at the time limit."""
        checkpoints, group = self.checkpoints, self.group
        due, over = (checkpoints.due(), checkpoints.over()) if checkpoints is not None else (False, False)
        due, over = group.decide([due or over, over])
        if not due:
            return
        self._check()
        state = self._state()
        if checkpoints is not None and group.rank == 0:
            checkpoints.save(self.progress.step, self.model, state)
        if over:
            raise Stopped

    def _state(self) -> dict[str, Any]:
        """Return the state of all processes, without weights."""
        device = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None
        local = {"memory": self.memory, "generators": [torch.get_rng_state(), device]}
        common = [] if self.optimizers is self.common_optimizers else self.common_optimizers
        return {
            "progress": asdict(self.progress),
            "best": self.best,
            "optimizers": [state_of(optimizer) for optimizer in self.optimizers],
            "common": [state_of(optimizer) for optimizer in common],
            "rates": [self.rates.scale, self.common_rates.scale],
            "precision": self.arithmetic.state(),
            "average": self.average.state() if self.average is not None else None,
            "losses": self.losses.state(),
            "heard": self.heard.state(),
            "processes": self.group.gather(local),
        }

    def _restore(self, saved: Mapping[str, Any]) -> None:
        """Load the result of `_state`."""
        self.best = saved["best"]
        for several, states in ((self.optimizers, "optimizers"), (self.common_optimizers, "common")):
            for optimizer, state in zip(several, saved[states], strict=False):
                load_state(optimizer, state)
        self.rates.scale, self.common_rates.scale = saved["rates"]
        self.arithmetic.restore(saved["precision"])
        if self.average is not None:
            self.average.restore(saved["average"])
        self.losses.restore(saved["losses"])
        self.heard.restore(saved["heard"])
        local = saved["processes"][self.group.rank]
        self.memory = local["memory"]
        processor, device = local["generators"]
        torch.set_rng_state(processor.cpu())
        if device is not None:
            torch.cuda.set_rng_state(device.cpu(), self.device)
