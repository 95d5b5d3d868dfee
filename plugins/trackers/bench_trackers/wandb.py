"""Weights & Biases, always offline: no data leave this machine before `wandb sync`."""

import os
from typing import Any

from bench_core import (
    Evaluation,
    Event,
    Number,
    Observer,
    RunStarted,
    StageEnded,
    TrainingName,
    TrainingStarted,
    Update,
)
from bench_trackers.names import curves, number_name, run_id
from bench_trackers.plugin import WandbConfig

os.environ["WANDB_ERROR_REPORTING"] = "false"  # no error telemetry

import wandb

#: Settings that prevent wandb from collecting data about the machine, its code and its network.
QUIET = {
    "silent": True,
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "save_code": False,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}


class WeightsAndBiases(Observer):
    """Writes one wandb run per training run, in the group of its suite, and another for the numbers.

    If training resumes from a checkpoint, its wandb run continues.
    """

    def __init__(self, config: WandbConfig) -> None:
        self.config = config
        self.started = RunStarted("", "", 0)
        self.runs: dict[TrainingName, Any] = {}  # open runs
        self.numbers: dict[str, float] = {}

    def hear(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.started = event
        elif isinstance(event, TrainingStarted):
            self._run(event.training).config.update({"steps": event.steps}, allow_val_change=True)
        elif isinstance(event, Update | Evaluation):
            self._run(event.training).log({"step": event.step, **dict(curves(event))})
        elif isinstance(event, Number):
            self.numbers[f"{number_name(event)}/seed {event.cell['seed']}"] = event.value
        elif isinstance(event, StageEnded):
            for training in [name for name in self.runs if name.key == event.key]:
                self.runs.pop(training).finish(exit_code=1 if event.failure else 0)

    def close(self) -> None:
        for run in self.runs.values():
            run.finish(exit_code=1)  # the stage did not finish
        self.runs.clear()
        if self.numbers:
            run = self._begin("numbers", name=self.started.run)
            run.summary.update(self.numbers)
            run.finish()

    def _run(self, training: TrainingName) -> Any:
        """Return the wandb run of a training run; if training resumes, continue its wandb run."""
        if training not in self.runs:
            settings = {"seed": training.seed, "key": training.key, "bench run": self.started.run}
            run = self._begin("train", id=run_id(training), name=training.label, config=settings)
            run.define_metric("*", step_metric="step")
            self.runs[training] = run
        return self.runs[training]

    def _begin(self, kind: str, **about: Any) -> Any:
        self.config.dir.mkdir(parents=True, exist_ok=True)
        return wandb.init(
            mode="offline", reinit="create_new", dir=self.config.dir, project=self.config.project,
            entity=self.config.entity, group=self.started.suite, job_type=kind, settings=wandb.Settings(**QUIET),
            **about,
        )  # fmt: skip
