"""The core's stages: prepare, initial, decode, score, measure, probe."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench_core.computing.building import built, device_of, likelihood_kind
from bench_core.computing.context import StageContext
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.computing.initial_model import initial_model, own_generators, store_model
from bench_core.computing.laws import laws
from bench_core.computing.loading import load_task, loaded_examples
from bench_core.computing.looks import overlaps, second_look
from bench_core.computing.overlap import SPLITS, overlap
from bench_core.computing.process_state import generators, restore
from bench_core.computing.result_checks import check_finding, check_info, checked_error, gave, measured, named, spool
from bench_core.data import Prediction, TaskInfo, joined
from bench_core.errors import Fault
from bench_core.metric import Metric
from bench_core.planning.stages import Stage
from bench_core.random_numbers import Rng
from bench_core.registry import configured
from bench_core.storage.predictions import read_predictions, write_lines, write_predictions
from bench_core.task import Size, Task

MAX_REPEATED_SECONDS = 10.0  #: CPU seconds; shorter preparations run twice to check that they agree
MAX_SAMPLES = 3  #: maximum number of sample outputs per decoding, for reports


def prepare(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Prepare the data of a task."""
    inside = folder / "data"
    inside.mkdir()
    base = load_task(context, stage)[0] if "task" in stage.inputs else None
    task, began = _task_in(inside, stage, base), time.process_time()
    seeded = generators()  # both preparations start from the same state
    info = task.prepare(context.data)
    check_info(info, task)
    checked, single = CheckedTask(task, task.config.complete(info)), stage.settings.get("split")
    splits = SPLITS if single is None else [single]
    look = second_look("tasks", checked, laws(stage), splits)
    if time.process_time() - began < MAX_REPEATED_SECONDS:
        with TemporaryDirectory(dir=folder) as place:
            again, states = _task_in(Path(place), stage, base), generators()
            restore(seeded)
            look.prepared_again(info, again.prepare(context.data), Path(place))
            restore(states)
    look.at_examples()
    info = task.config.complete(_with_base(info, base, task))
    for split, texts in info.extras.get("texts", {}).items():
        if (number := texts.get("unwritable")) and info.counts:
            lost: Fault = f"{number:,} of {texts['references']:,} references of {split!r}"
            text: Fault = "cannot be represented by the tokens of models trained on it, which limits their scores."
            context.warn(f"{named(task, 'prepare')}: {lost} {text}")
    if counts := overlap(checked, splits, base):
        for text in overlaps(counts):
            context.warn(f"{named(task, 'batches')}: {text}")
        info = replace(info, extras=joined([info.extras, {"overlap": counts}]))
    (folder / "task_info.json").write_text(json.dumps(asdict(info), ensure_ascii=False), encoding="utf-8")
    return {}


def _task_in(folder: Path, stage: Stage, base: CheckedTask | None) -> Task:
    """Return the task to prepare in a folder."""
    task: Task = built("task", stage.settings["task"], folder)
    task.base = base and base.task
    return task


def _with_base(info: TaskInfo, base: CheckedTask | None, task: Task) -> TaskInfo:
    """Complete a split's info with its base's counts and extras; raise PluginError if their vocabularies differ."""
    if base is None:
        return info
    for name in ("vocabulary", "source_vocabulary", "source_shape"):
        if [*getattr(info, name)] != [*getattr(base.info, name)]:
            raise gave(task, "prepare", f"a {name} for a split", "expected the same as in its `base`.")
    extras = {name: value for name, value in base.info.extras.items() if name != "texts"}  # describes other splits
    return replace(info, counts=base.info.counts, extras=joined([extras, info.extras]))


def initial(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Store a model with its initial weights, for evaluation without training."""
    (task, info), device = load_task(context, stage), device_of(stage.settings)
    size, rng = Size(*stage.settings["size"]), Rng(stage.settings["seed"]).fork("train")
    with own_generators(device):
        model = initial_model(context, task, info, stage.settings, size, device, rng)
        return store_model(model, [], {"updates": 0}, folder)


def decode(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Decode the examples of a split with a trained model."""
    decoder = built("decoder", stage.settings["decoder"])
    with loaded_examples(context, stage, "decode") as (model, examples):
        predictions = examples.decoded(model, decoder, folder)
    write_predictions(folder / "predictions.jsonl.gz", predictions)
    shown = islice(predictions, MAX_SAMPLES)
    samples = [sample_of(prediction) | _course(model, examples.task, prediction) for prediction in shown]
    (folder / "samples.json").write_text(json.dumps(samples), encoding="utf-8")
    tokens = sum(hypothesis.length or 0 for prediction in predictions for hypothesis in prediction.hypotheses[:1])
    return {"examples": len(predictions), "tokens": tokens}


def score(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Score the examples of a split with a trained model."""
    by, trained = stage.settings["by"], context.input(stage, "model").manifest["ingredients"]["settings"]["model"]
    with loaded_examples(context, stage, "score") as (model, examples):
        predictions = examples.scored(model, by, likelihood_kind(trained, by), folder)
    write_predictions(folder / "predictions.jsonl.gz", predictions)
    return {"examples": len(predictions), "tokens": sum(prediction.target_tokens for prediction in predictions)}


def measure(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Score predictions with a metric."""
    import numpy as np

    from bench_core.computing import bootstrap
    from block_bootstrap import mark

    source = context.input(stage, "predictions")
    predictions = read_predictions(source.file("predictions.jsonl.gz"))
    split = source.manifest["ingredients"]["settings"]["split"]
    info = TaskInfo(**context.store.find(*stage.inputs["task"]).json("task_info.json"))
    metric, parts, value = measured(built("metric", stage.settings["metric"]), info, predictions)
    groups = [prediction.id if prediction.group is None else prediction.group for prediction in predictions]
    groups = groups if metric.population == "sample" else []
    replicates = bootstrap.replicates(metric, parts, groups, info.consecutive)
    look = second_look("metrics", lambda: built("metric", stage.settings["metric"]), info, laws(stage))
    look.at_predictions(predictions, split)
    look.at_parts(metric, parts)
    ceiling = _ceiling(lambda: built("metric", stage.settings["metric"]), info, predictions)
    number = {
        "value": _as_json(value),
        "examples": len(predictions),
        "label": metric.label,
        "unit": metric.unit,
        "digits": metric.digits,
        "better": metric.better,
        "signature": metric.signature,
        "sample": mark((prediction.id for prediction in predictions), groups, f"{stage.inputs['task'][1]} {split}"),
        "scale": metric.scale,
        "units": replicates.units,
        "block": replicates.block,
        "error": checked_error(metric, parts),
        "bounds": (bounds := metric.config.bounds()) and [_as_json(float(end)) for end in bounds],
        **({} if ceiling is None else {"ceiling": _as_json(ceiling)}),
    }
    np.save(folder / "draws.npy", replicates.draws, allow_pickle=False)
    write_lines(folder / "parts.jsonl.gz", spool(parts, metric))
    (folder / "number.json").write_text(json.dumps(number), encoding="utf-8")
    return {"examples": len(predictions)}


def _ceiling(build: Callable[[], Metric[Any]], info: TaskInfo, predictions: Sequence[Prediction]) -> float | None:
    """Return the score of the texts decoded from the references' tokens; None if these equal the references."""
    if not build().config.of_texts or all(
        prediction.written is None or prediction.written in prediction.references for prediction in predictions
    ):
        return None
    best = [
        replace(prediction, texts=[prediction.references[0] if prediction.written is None else prediction.written])
        for prediction in predictions
    ]
    return measured(build(), info, best)[2]


def probe(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Run a probe on a trained model."""
    import torch

    settings = stage.settings["decoder"]
    decoder = configured("decoder", settings) if settings else None
    probe = built("probe", stage.settings["probe"])
    with loaded_examples(context, stage, "decode") as (model, examples), torch.no_grad():
        finding = probe.ask(model.cpu(), decoder, examples.to_decode())
    model.to(examples.device)
    check_finding(finding, probe)
    (folder / "finding.json").write_text(json.dumps(asdict(finding), ensure_ascii=False), encoding="utf-8")
    return {}


def _as_json(value: float) -> float | str:
    """Return a number for JSON: infinities and NaN as strings."""
    return value if math.isfinite(value) else str(value)


def sample_of(prediction: Prediction) -> dict[str, Any]:
    """Return a sample output for reports."""
    first = prediction.hypotheses[0]
    log_prob = {"log_prob": first.log_prob} if first.log_prob is not None and math.isfinite(first.log_prob) else {}
    return {
        "id": prediction.id,
        "prompt": prediction.prompt,
        "text": prediction.texts[0],
        "reference": prediction.references[0] if prediction.references else "",
        "finished": first.finished,
        "tokens": first.length,
        **log_prob,
        **({"values": dict(first.values)} if first.values else {}),
    }


def _course(model: Any, task: Task, prediction: Prediction) -> dict[str, list[str]]:
    """Return the partial outputs of a generation; empty if actions are tokens."""
    actions, each = prediction.hypotheses[0].actions or [], getattr(model, "actions_per_token", 1)
    if each == 1:
        return {}
    return {"steps": [task.text(model.read(actions[:end])) for end in range(each, len(actions) + 1, each)]}
