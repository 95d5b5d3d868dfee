"""Stages that train: one model, or several seeds of it as one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from bench_core.computing.building import built, device_of, likelihood_kind, load_weights
from bench_core.computing.guards import diverged, measured
from bench_core.data import Facts, Purpose
from bench_core.errors import TrainingError
from bench_core.noise import Noise
from bench_core.planning.stages import Order

if TYPE_CHECKING:
    import torch

    from bench_core.computing.context import StageContext
    from bench_core.computing.train import Selection
    from bench_core.data import Batch
    from bench_core.planning.stages import Stage
    from bench_core.suites.training import TrainingConfig
    from bench_core.task import Task


def train(runner: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Train a model."""
    import torch

    if "together" in stage.inputs:
        return _taken(runner, stage, folder)
    from bench_core.computing.checkpoint import Checkpoints
    from bench_core.computing.train import Trainer
    from bench_core.suites.training import TrainingConfig

    settings = stage.settings
    plan = TrainingConfig.model_validate({**settings["training"], "select": {}})
    task, facts = runner.task(stage)
    noise = Noise(settings["seed"]).fork("train")
    device = device_of(settings)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        model = _begun(runner, settings, task, facts, plan, noise, device)
        selection = _selection(settings, task, facts, noise, device)
        bf16 = settings["precision"] == "bf16"
        order = runner.order or Order(stage)
        checkpoints = Checkpoints(runner.store, stage.key, stage.label, order.every, order.until)
        trainer = Trainer(model, task, plan, noise, device, selection, bf16, runner.tell, checkpoints)
        history = trainer.run()
    counts = _leave_trained(model, history, trainer.progress.step, folder)
    return {**counts, **({"seconds": checkpoints.seconds()} if checkpoints.spent else {})}


def together(runner: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Train all seeds of a row as one; leave of each what it would have left alone, or why it failed."""
    import torch

    from bench_core.computing.checkpoint import Checkpoints
    from bench_core.computing.vmap_training import JointTrainer, Stack
    from bench_core.suites.training import TrainingConfig

    settings, seeds = stage.settings, stage.settings["together"]
    plan = TrainingConfig.model_validate({**settings["training"], "select": {}})
    task, facts = runner.task(stage)
    noises = [Noise(seed).fork("train") for seed in seeds]
    device = device_of(settings)
    order = runner.order or Order(stage)
    checkpoints = Checkpoints(
        runner.store, stage.key, stage.label, order.every, order.until, of=settings.get("first", "")
    )
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        stack = Stack([_begun(runner, settings, task, facts, plan, noise, device) for noise in noises])
        selections = [_selection(settings, task, facts, noise, device) for noise in noises]
        bf16 = settings["precision"] == "bf16"
        trainer = JointTrainer(
            stack, task, plan, noises[0], device, selections[0], bf16, runner.tell, checkpoints, noises, selections
        )
        trainer.run()
    failures, counts = {}, {}
    for number, (seed, copy) in enumerate(zip(seeds, trainer.progress.copies, strict=True)):
        if copy.failure is not None:
            failures[str(seed)] = copy.failure
            continue
        (folder / str(seed)).mkdir()
        try:
            counts = _leave_trained(stack.at(number), copy.history, trainer.progress.step, folder / str(seed))
        except TrainingError as error:
            failures[str(seed)] = str(error)
    (folder / "failures.json").write_text(json.dumps(failures, ensure_ascii=False), encoding="utf-8")
    return {**counts, **({"seconds": checkpoints.seconds()} if checkpoints.spent else {})}


def _taken(runner: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Take what one of several seeds has left that were trained as one; each costs the same share."""
    joint, seed, seeds = runner.input(stage, "together"), str(stage.settings["seed"]), stage.settings["together"]
    failures = joint.json("failures.json")
    if seed in failures:
        raise TrainingError(failures[seed])
    for name in ("weights.safetensors", "history.jsonl", "training.json"):
        copyfile(joint.file(f"{seed}/{name}"), folder / name)
    cost = joint.manifest["cost"]
    shares = {name: round(cost[name] / len(seeds), 4) for name in ("seconds", "cpu_seconds")}
    return {**cost, **shares}


def _begun(
    runner: StageContext,
    settings: Mapping[str, Any],
    task: Task,
    facts: Facts,
    plan: TrainingConfig,
    noise: Noise,
    device: torch.device,
) -> Any:
    """Return a model as it is before its first update; torch's generator goes on from its weights."""
    import torch

    torch.manual_seed(noise.fork("weights").key % 2**63)
    known = runner.with_files(facts, settings["model"])
    model = built("model", settings["model"], known).to(device)
    model.setup(known, noise.fork("setup"))
    model.survey(lambda: _surveyed(task, plan, device), noise.fork("survey"))
    if settings["initial"]:
        load_weights(model, Path(settings["initial"]))
    return model


def _selection(settings: Mapping[str, Any], task: Task, facts: Facts, noise: Noise, device: Any) -> Selection:
    """Return how weights are judged: by a metric over scores or generated text, or by the training loss."""
    from bench_core.computing.evaluate import Examples
    from bench_core.computing.train import Selection, mean_loss
    from bench_core.task import Size

    select = settings["training"]["select"]
    name = select["metric"] if isinstance(select["metric"], str) else select["metric"]["name"]
    label, split, noise = f"{select['split']} {name}", select["split"], noise.fork("select")
    if isinstance(select["metric"], str):
        size = Size(settings["training"]["batch_size"], settings["training"]["batch_unit"])
        return Selection(lambda model: mean_loss(model, task, split, size, noise, device), -1, label)
    metric = built("metric", select["metric"])
    examples = Examples(task, split, noise, device, number=select["examples"], words=len(facts.vocabulary))
    decoder = built("decoder", select["decoder"]) if select["decoder"] else None

    def judge(model: Any) -> float:
        if decoder:
            outcomes = examples.decoded(model, decoder)
        else:
            outcomes = examples.scored(model, select["by"], likelihood_kind(settings["model"], select["by"]))
        return measured(metric, facts, outcomes)[2]

    return Selection(judge, metric.better, label)


def _leave_trained(model: Any, history: list[dict[str, Any]], updates: int, folder: Path) -> dict[str, Any]:
    """Write a trained model and how it became that; return counts for the costs."""
    from safetensors.torch import save_model

    wrong = diverged(model)
    if wrong:
        raise TrainingError(f"after training {wrong}. Lower `lr`, set `clip`, or train in fp32.")
    save_model(model, str(folder / "weights.safetensors"))
    (folder / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in history), encoding="utf-8")
    counts = {"parameters": sum(parameter.numel() for parameter in model.parameters()), "updates": updates}
    about = dict(model.about())
    told = {**counts, "about": about} if about else counts
    (folder / "training.json").write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")
    return counts


def _surveyed(task: Task, plan: TrainingConfig, device: torch.device) -> Iterator[Batch]:
    """Yield the training split in file order, on a device."""
    from bench_core.task import Size

    for batch in task.batches("train", Purpose.TRAIN, Size(plan.batch_size, plan.batch_unit)):
        yield batch.change(lambda tensor: tensor.to(device))
