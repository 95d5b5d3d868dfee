"""The kinds of stages that train: one model, or several seeds as one; imports nothing that computes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bench_core.stage_kinds import HISTORY, StageKind

if TYPE_CHECKING:
    from torch import nn

    from bench_core.planning.stages import Stage
    from bench_core.storage.store import Store

_HERE = "bench_core.computing.training"
_STORED = f"{_HERE}.kinds:remove_checkpoints"
_CALIBRATE, _FIT = "bench_core.computing.calibration:calibrate", f"{_HERE}.kinds:check_fit"

TRAINING = (
    StageKind(
        "together", f"{_HERE}.stages:together", gives_weights=True, trains=True, joint=True,
        stored=_STORED, calibrate=_CALIBRATE, fit=_FIT,
    ),
    StageKind(
        "train", f"{_HERE}.stages:train", gives_weights=True, trains=True,
        stored=_STORED, calibrate=_CALIBRATE, fit=_FIT,
        files=(HISTORY, "training.json"), record="trained",
        check="bench_core.suites.training_check:check_training",
        peer=f"{_HERE}.peer_process",
        carrying={f"{_HERE}.kinds": "declares kinds", f"{_HERE}.peer_process": "performs stages elsewhere"},
        lookups=(
            f"{_HERE}.checkpoint:_rows_class",
            "bench_core.suites.named_classes:_custom",
            "bench_core.suites.named_classes:_known",
        ),
    ),
)  # fmt: skip


def remove_checkpoints(store: Store, stage: Stage) -> None:
    """Remove the checkpoints of a training that is stored."""
    from bench_core.computing.training.checkpoint import Checkpoints

    Checkpoints(store, stage.key, stage.label, math.inf).remove()


def check_fit(model: nn.Module, settings: Mapping[str, Any]) -> None:
    """Raise SuiteError if a training names weights or modules that its model does not have."""
    from bench_core.computing.training.optimizers import check_groups
    from bench_core.computing.training.reset import modules_of
    from bench_core.computing.training.stages import training_config

    config = training_config(settings)
    check_groups(model, config)
    for phase in config.phases:
        modules_of(model, phase.reset)
