"""How far a training is, and how it goes on from a checkpoint."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from bench_core.errors import Stopped, TrainingError
from bench_training.averaging import WeightAverage
from bench_training.checkpoint import Checkpoints
from bench_training.log import Average
from bench_training.optimizers import load_state, state_of
from bench_training.peers import Peers
from bench_training.precision import Precision
from bench_training.schedules import LearningRates


@dataclass
class Progress:
    """The progress of a training: all state besides weights and optimizer."""

    planned: list[int] = field(default_factory=list)  # updates of each phase
    batch_size: int = 0  # found by `batch_size: auto`
    epoch_length: int = 0  # batches of an epoch, once counted
    phase: int = 0
    step: int = 0
    first: int = 0  # step at which the phase began
    epoch: int = 0
    batch: int = 0  # batches of the epoch that are done
    best: float | None = None
    stale: int = 0  # evaluations without progress
    stop_best: float | None = None  # of the metric to stop by
    stop_stale: int = 0  # evaluations without progress in that
    history: list[dict[str, Any]] = field(default_factory=list)


class Resumable(ABC):
    """A training that goes on from its last checkpoint as if it had not been interrupted."""

    model: Any
    device: torch.device
    checkpoints: Checkpoints | None
    peers: Peers  # this and other processes, which share each batch
    progress: Progress
    numbers: Precision
    average: WeightAverage | None
    optimizers: list[torch.optim.Optimizer]  # of the phase
    common_optimizers: list[torch.optim.Optimizer]  # of phases without their own
    rates: LearningRates  # of the phase
    common_rates: LearningRates
    memory: list[Any]  # what the last batch left, of each of its parts
    best: dict[str, Tensor]
    losses: Average  # since the last evaluation
    heard: Average  # those of `losses` that have been heard of

    @abstractmethod
    def _check(self) -> None:
        """Raise TrainingError if the loss or gradient of an update was not finite; waits for the device."""

    def _last_checkpoint(self) -> Any:
        """Return the state that the last checkpoint keeps, and load its weights; None without one.

        Of several processes the first one looks first, as it sets damaged ones aside.
        """
        checkpoints, peers, kept = self.checkpoints, self.peers, None
        if checkpoints is None:
            return None
        if peers.rank == 0:
            kept = checkpoints.last(self.model, self.device)
        (step,) = peers.numbers([0 if kept is None else kept["progress"]["step"]])
        if peers.rank and step:
            kept = checkpoints.last(self.model, self.device)
            if kept is None or kept["progress"]["step"] != step:
                raise TrainingError("the processes of this training found different checkpoints. Run it again.")
        return kept

    def _keep(self) -> None:
        """Write a checkpoint if one is due; raise Stopped at the time limit."""
        kept, peers = self.checkpoints, self.peers
        due, over = (kept.due() or kept.over(), kept.over()) if kept is not None else (False, False)
        due, over = peers.decide([due, over])
        if not due:
            return
        self._check()
        state = self._state()
        if kept is not None and peers.rank == 0:
            kept.save(self.progress.step, self.model, state)
        if over:
            raise Stopped

    def _state(self) -> dict[str, Any]:
        """Return all state besides weights; of all processes, if there are several."""
        device = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None
        own = {"memory": self.memory, "generators": [torch.get_rng_state(), device]}
        common = [] if self.optimizers is self.common_optimizers else self.common_optimizers
        return {
            "progress": asdict(self.progress),
            "best": self.best,
            "optimizers": [state_of(optimizer) for optimizer in self.optimizers],
            "common": [state_of(optimizer) for optimizer in common],
            "rates": [self.rates.scale, self.common_rates.scale],
            "precision": self.numbers.state(),
            "average": self.average.state() if self.average is not None else None,
            "losses": self.losses.state(),
            "heard": self.heard.state(),
            "processes": self.peers.gather(own),
        }

    def _restore(self, kept: Mapping[str, Any]) -> None:
        """Inverse of `_state`."""
        self.best = kept["best"]
        for several, states in ((self.optimizers, "optimizers"), (self.common_optimizers, "common")):
            for optimizer, state in zip(several, kept[states], strict=False):
                load_state(optimizer, state)
        self.rates.scale, self.common_rates.scale = kept["rates"]
        self.numbers.restore(kept["precision"])
        if self.average is not None:
            self.average.restore(kept["average"])
        self.losses.restore(kept["losses"])
        self.heard.restore(kept["heard"])
        own = kept["processes"][self.peers.rank]
        self.memory = own["memory"]
        processor, device = own["generators"]
        torch.set_rng_state(processor.cpu())
        if device is not None:
            torch.cuda.set_rng_state(device.cpu(), self.device)
