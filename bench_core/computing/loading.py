"""Loading a stage's task, model and examples; the last task and model stay loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench_core.computing.building import MAX_NAMES, built, device_of, load_stored_weights
from bench_core.computing.context import StageContext
from bench_core.computing.fingerprint import fingerprint
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.computing.laws import laws
from bench_core.data import Purpose, TaskInfo
from bench_core.errors import PluginError
from bench_core.planning.path_settings import placed
from bench_core.planning.stages import Stage
from bench_core.random_numbers import Rng
from bench_core.registry import configured
from bench_core.storage.store import ANSWERS
from bench_core.task import Size

if TYPE_CHECKING:
    import torch

    from bench_core.computing.evaluate import Examples


def load_task(context: StageContext, stage: Stage, role: str = "task") -> tuple[CheckedTask, TaskInfo]:
    """Return the prepared task of a stage and its info."""
    artifact = context.input(stage, role)
    if context.loaded.get(role, ("",))[0] != stage.inputs[role][1]:
        artifact.check()
        settings = artifact.manifest["ingredients"]["settings"]["task"]
        task = built("task", settings, (artifact.folder / "data").absolute())
        context.loaded[role] = stage.inputs[role][1], task
    info = TaskInfo(**artifact.json("task_info.json"))
    return CheckedTask(context.loaded[role][1], info), info


def load_model(context: StageContext, stage: Stage) -> tuple[Any, CheckedTask, torch.device]:
    """Return the trained model of a stage, its task, and the device."""
    task, info = load_task(context, stage)
    device = device_of(stage.settings)
    artifact = context.input(stage, "model")
    evaluation = {**stage.settings.get("evaluation", {}), **stage.access}
    loaded = f"{stage.inputs['model'][1]} {sorted(evaluation.items())} {stage.inputs.get('validation')}"
    if context.loaded.get("model", ("",))[0] != loaded:
        described = artifact.manifest["ingredients"]["settings"]["model"] | evaluation
        settings = placed(described, stage.places)
        model = built("model", settings, with_files(context, info, settings))
        load_stored_weights(model, artifact)
        model.to(device)
        if "validation" in stage.inputs:
            _fit_on_validation(context, stage, model, device)
        context.loaded["model"] = loaded, (model, fingerprint(model), configured("model", settings))
    return context.loaded["model"][1][0], task, device


@contextmanager
def loaded_examples(context: StageContext, stage: Stage, purpose: str) -> Iterator[tuple[Any, Examples]]:
    """Yield the trained model of a stage in evaluation mode, and the examples.

    Raises PluginError if the stage changed the model's weights, which are read-only.
    """
    from bench_core.computing.evaluate import Examples
    from bench_core.computing.evaluating import evaluating

    settings, rows = stage.settings, context.request.rows if context.request else None
    model, task, device = load_model(context, stage)
    config = context.loaded["model"][1][2]
    examples = Examples(
        task, settings["split"], Rng(settings["seed"]).fork(purpose), device, settings["batch_size"],
        settings["examples"], context.report_progress, context.warn, len(task.info.vocabulary), rows,
        settings["seed"], context.store.root / ANSWERS,
        (config, laws(stage, config)) if rows is None else None,
    )  # fmt: skip
    with evaluating(model):
        yield model, examples
    _check_unchanged(context)


def _fit_on_validation(context: StageContext, stage: Stage, model: Any, device: torch.device) -> None:
    """Let a model fit settings of the evaluation; the fit depends on the seed, not on the kind of stage."""
    from bench_core.computing.evaluating import evaluating

    task, size = load_task(context, stage, "validation")[0], Size(stage.settings["batch_size"])
    batches = task.batches("valid", Purpose.SCORE, size)
    with evaluating(model):
        model.fit_on_validation(
            (batch.to(device) for batch in batches), Rng(stage.settings["seed"]).fork("validation")
        )


def _check_unchanged(context: StageContext) -> None:
    """Raise PluginError if a stage changed its model's weights; drop a model with other changes."""
    model, before, _ = context.loaded["model"][1]
    after = fingerprint(model)
    if names := before.changed(after):
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        raise PluginError(
            f"it changed the model's weights ({', '.join(names[:MAX_NAMES])}{more}), which are read-only. "
            "Modify copies instead."
        )
    if before != after:
        del context.loaded["model"]


def with_files(context: StageContext, info: TaskInfo, model: Mapping[str, Any]) -> TaskInfo:
    """Return a task's info with the files of the model's Config."""
    config = configured("model", model)
    return replace(info, files=config.files(context.data))
