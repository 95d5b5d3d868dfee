"""The training stages: one model, or several vmapped seeds."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from shutil import copyfile
from typing import Any

import torch

from bench_core.computing.building import WEIGHTS, built, device_of, likelihood_kind
from bench_core.computing.context import StageContext
from bench_core.computing.evaluate import Examples
from bench_core.computing.initial_model import initial_model, own_generators, store_model
from bench_core.computing.loading import load_task
from bench_core.computing.result_checks import measured
from bench_core.errors import TrainingError
from bench_core.planning.stages import Stage, StageRequest
from bench_core.random_numbers import Rng
from bench_core.stage_kinds import HISTORY
from bench_core.task import Size
from bench_training.checkpoint import Checkpoints
from bench_training.evaluation import Selection, mean_loss
from bench_training.process_group import process_group
from bench_training.settings import Stop, TrainingConfig
from bench_training.trainer import Trainer
from bench_training.vmapped import JointTrainer, Stack


def train(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Train a model."""
    if "vmapped" in stage.inputs:
        return _extract_seed(context, stage, folder)
    setup, rng = TrainingSetup(context, stage), Rng(stage.settings["seed"]).fork("train")
    with setup.own_generators():
        with process_group(context, stage, setup.device) as group:
            model = setup.model(rng)
            if group.number > 1:
                torch.manual_seed(rng.fork("process").fork(group.rank).key % 2**63)
            trainer = Trainer(
                model, setup.task, setup.config, rng, setup.device, setup.selection(rng), setup.precision,
                context.tell, setup.checkpoints, setup.stop(rng), context.warn, group, context.report,
            )  # fmt: skip
            history = trainer.run()
        if context.peer is not None:
            return {}
    auto = {"batch_size": trainer.progress.batch_size} if trainer.progress.batch_size else {}
    counts = {"updates": trainer.progress.step, **auto}
    return store_model(trainer.model, history, counts, folder) | setup.seconds()


def vmapped(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Train several vmapped seeds; write for each seed the files of a separate training run, or why it failed."""
    setup, seeds = TrainingSetup(context, stage), stage.settings["vmapped"]
    rngs = [Rng(seed).fork("train") for seed in seeds]
    with setup.own_generators():
        stack, selections = Stack([*map(setup.model, rngs)]), [*map(setup.selection, rngs)]
        trainer = JointTrainer(
            stack, setup.task, setup.config, rngs[0], setup.device, selections[0], setup.precision, context.tell,
            setup.checkpoints, warn=context.warn, hear=context.report, rngs=rngs, selections=selections,
        )  # fmt: skip
        trainer.run()
    failures, counts = {}, {}
    for number, (seed, copy) in enumerate(zip(seeds, trainer.progress.copies, strict=True)):
        if copy.failure is not None:
            failures[str(seed)] = copy.failure
            continue
        (folder / str(seed)).mkdir()
        try:
            updates = {"updates": trainer.progress.step}
            counts = store_model(stack.at(number), copy.history, updates, folder / str(seed))
        except TrainingError as error:
            failures[str(seed)] = str(error)
    (folder / "failures.json").write_text(json.dumps(failures, ensure_ascii=False), encoding="utf-8")
    return counts | setup.seconds()


def _extract_seed(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Extract one of several vmapped seeds; each seed is assigned an equal share of the cost."""
    joint, seed, seeds = context.input(stage, "vmapped"), str(stage.settings["seed"]), stage.settings["vmapped"]
    failures = joint.json("failures.json")
    if seed in failures:
        raise TrainingError(failures[seed])
    for name in (WEIGHTS, HISTORY, "training.json"):
        copyfile(joint.file(f"{seed}/{name}"), folder / name)
    cost = joint.manifest["cost"]
    return {**cost, **{name: round(cost[name] / len(seeds), 4) for name in ("seconds", "cpu_seconds")}}


def training_config(settings: Mapping[str, Any]) -> TrainingConfig:
    """Return the training config in the settings of a stage, without metrics: the stage builds metrics as parts."""
    training = {**settings["training"], "select": {}}
    if stop := training.get("stop"):
        unbuilt = {"metric": "", "decoder": None}
        training["stop"] = {key: value for key, value in {**stop, **unbuilt}.items() if key in Stop.model_fields}
    return TrainingConfig.model_validate(training)


class TrainingSetup:
    """The setup of a training stage: what its seeds share, and the initial state of each seed."""

    def __init__(self, context: StageContext, stage: Stage) -> None:
        self.context, self.settings = context, stage.settings
        self.config = training_config(self.settings)
        self.task, self.info = load_task(context, stage)
        self.evaluation_tasks = {
            role: load_task(context, stage, role) for role in ("select", "stop") if role in stage.inputs
        }
        self.device, self.precision = device_of(self.settings), self.settings["precision"]
        request, of = context.request or StageRequest(stage), stage.first
        self.checkpoints = Checkpoints(
            context.store, stage.key, stage.label, request.every, request.until, of, context.inputs, context.earlier
        )

    def own_generators(self) -> AbstractContextManager[None]:
        """Return a context manager that restores torch's random number generators."""
        return own_generators(self.device)

    def model(self, rng: Rng) -> Any:
        """Return an initialized model; torch's generator keeps the state after initialization."""
        model = {**self.settings["model"], **self.settings["training"]["select"].get("evaluation", {})}
        settings = {"model": model, "initial": self.settings["initial"]}
        return initial_model(self.context, self.task, self.info, settings, self.size, self.device, rng)

    @property
    def size(self) -> Size:
        """The size of batches outside updates."""
        return Size(*self.config.size)

    def stop(self, rng: Rng) -> Selection | None:
        """Return the early-stopping metric, or None."""
        settings = self.settings["training"].get("stop")
        return self._build_selection("stop", settings, rng.fork("stop")) if settings else None

    def selection(self, rng: Rng) -> Selection:
        """Return the metric for checkpoint selection: on scores or generated text, or the training loss."""
        return self._build_selection("select", self.settings["training"]["select"], rng.fork("select"))

    def _build_selection(self, role: str, select: Mapping[str, Any], rng: Rng) -> Selection:
        """Build a metric from its settings."""
        task, info = self.evaluation_tasks.get(role, (self.task, self.info))
        device, split = self.device, select["split"]
        if isinstance(select["metric"], str):
            size, smoothing = self.size, self.config.label_smoothing
            label = f"{split} {select['metric']}"
            return Selection(lambda model: mean_loss(model, task, split, size, rng, device, smoothing), -1, label)
        metric = built("metric", select["metric"])
        examples = Examples(task, split, rng, device, number=select["examples"], words=len(self.info.vocabulary))
        decoder = built("decoder", select["decoder"]) if select["decoder"] else None

        def judge(model: Any) -> float:
            if decoder:
                predictions = examples.decoded(model, decoder)
            else:
                kind = likelihood_kind(self.settings["model"], select["by"])
                predictions = examples.scored(model, select["by"], kind)
            return measured(metric, info, predictions)[2]

        return Selection(judge, metric.better, f"{split} {select['metric']['name']}")

    def seconds(self) -> dict[str, float]:
        """Return the total duration of training including earlier runs, as a cost entry."""
        return {"seconds": self.checkpoints.seconds()} if self.checkpoints.spent else {}
