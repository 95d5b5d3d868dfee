"""How far a training is, and how it goes on from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from bench_core.errors import Stopped, TrainingError
from bench_training.optimizers import load_state, state_of

if TYPE_CHECKING:
    from bench_training.trainer import Trainer


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


def last_checkpoint(trainer: Trainer) -> Any:
    """Return the state that the last checkpoint keeps, and load its weights; None without one.

    Of several processes the first one looks first, as it sets damaged ones aside.
    """
    checkpoints, peers, kept = trainer.checkpoints, trainer.peers, None
    if checkpoints is None:
        return None
    if peers.rank == 0:
        kept = checkpoints.last(trainer.model, trainer.device)
    (step,) = peers.numbers([0 if kept is None else kept["progress"]["step"]])
    if peers.rank and step:
        kept = checkpoints.last(trainer.model, trainer.device)
        if kept is None or kept["progress"]["step"] != step:
            raise TrainingError("the processes of this training found different checkpoints. Run it again.")
    return kept


def keep(trainer: Trainer) -> None:
    """Write a checkpoint if one is due; raise Stopped at the time limit."""
    kept, peers = trainer.checkpoints, trainer.peers
    due, over = (kept.due() or kept.over(), kept.over()) if kept is not None else (False, False)
    due, over = peers.decide([due, over])
    if not due:
        return
    trainer._check()
    state = state_of_training(trainer)
    if kept is not None and peers.rank == 0:
        kept.save(trainer.progress.step, trainer.model, state)
    if over:
        raise Stopped


def state_of_training(trainer: Trainer) -> dict[str, Any]:
    """Return all state besides weights; of all processes, if there are several."""
    device = torch.cuda.get_rng_state(trainer.device) if trainer.device.type == "cuda" else None
    own = {"memory": trainer.memory, "generators": [torch.get_rng_state(), device]}
    common = [] if trainer.optimizers is trainer.common_optimizers else trainer.common_optimizers
    return {
        "progress": asdict(trainer.progress),
        "best": trainer.best,
        "optimizers": [state_of(optimizer) for optimizer in trainer.optimizers],
        "common": [state_of(optimizer) for optimizer in common],
        "rates": [trainer.rates.scale, trainer.common_rates.scale],
        "precision": trainer.numbers.state(),
        "average": trainer.average.state() if trainer.average is not None else None,
        "losses": trainer.losses.state(),
        "heard": trainer.heard.state(),
        "processes": trainer.peers.gather(own),
    }


def restore(trainer: Trainer, kept: Mapping[str, Any]) -> None:
    """Inverse of `state_of_training`."""
    trainer.best = kept["best"]
    for several, states in ((trainer.optimizers, "optimizers"), (trainer.common_optimizers, "common")):
        for optimizer, state in zip(several, kept[states], strict=False):
            load_state(optimizer, state)
    trainer.rates.scale, trainer.common_rates.scale = kept["rates"]
    trainer.numbers.restore(kept["precision"])
    if trainer.average is not None:
        trainer.average.restore(kept["average"])
    trainer.losses.restore(kept["losses"])
    trainer.heard.restore(kept["heard"])
    own = kept["processes"][trainer.peers.rank]
    trainer.memory = own["memory"]
    processor, device = own["generators"]
    torch.set_rng_state(processor.cpu())
    if device is not None:
        torch.cuda.set_rng_state(device.cpu(), trainer.device)
