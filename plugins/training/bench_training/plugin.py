"""The training stage kinds, for one seed or several vmapped seeds; does not import torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench_core import hookimpl
from bench_core.stage_kinds import HISTORY, StageKind

if TYPE_CHECKING:
    from torch import nn

    from bench_core.planning.stages import Stage
    from bench_core.storage.store import Store

_HERE = "bench_training"
_STORED = f"{_HERE}.plugin:remove_checkpoints"
_FORECAST, _FIT = f"{_HERE}.forecast", f"{_HERE}.plugin:check_fit"

TRAINING = (
    StageKind(
        "vmapped", f"{_HERE}.stages:vmapped", gives_weights=True, trains=True, joint=True,
        stored=_STORED, forecast=_FORECAST, fit=_FIT,
    ),
    StageKind(
        "train", f"{_HERE}.stages:train", gives_weights=True, trains=True,
        stored=_STORED, forecast=_FORECAST, fit=_FIT,
        files=(HISTORY, "training.json"), record="trained",
        schema=f"{_HERE}.settings:TrainingConfig", check=f"{_HERE}.training_check:check_training",
        peer=f"{_HERE}.peer_process",
        carrying={
            f"{_HERE}.plugin": "declares kinds",
            f"{_HERE}.peer_process": "performs stages elsewhere",
            f"{_HERE}.forecast": "predicts what trainings cost",
            f"{_HERE}.training_check": "checks settings before anything is planned",
        },
        lookups=(
            f"{_HERE}.checkpoint:_rows_class",
            f"{_HERE}.named_classes:_custom",
            f"{_HERE}.named_classes:_torch_classes",
        ),
    ),
)  # fmt: skip


@hookimpl
def bench_stage_kinds(known: Sequence[str]) -> Sequence[StageKind]:
    """Return the training stage kinds."""
    return TRAINING


def remove_checkpoints(store: Store, stage: Stage) -> None:
    """Remove the checkpoints of a training stage that is stored."""
    from bench_training.checkpoint import Checkpoints

    Checkpoints(store, stage.key, stage.label, math.inf).remove()


def check_fit(model: nn.Module, settings: Mapping[str, Any]) -> None:
    """Raise SuiteError if training settings refer to weights or modules that the model lacks."""
    from bench_training.optimizers import check_groups
    from bench_training.reset import modules_of
    from bench_training.stages import training_config

    config = training_config(settings)
    check_groups(model, config)
    for phase in config.phases:
        modules_of(model, phase.reset)
