"""The stages of the core: prepare, initial, decode, score, measure, probe."""

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
from bench_core.computing.result_checks import check_finding, check_info, checked_error, gave, measured, named
from bench_core.data import Outcome, TaskInfo, joined
from bench_core.errors import Fault, PluginError
from bench_core.metric import Metric
from bench_core.planning.stages import Stage
from bench_core.random_numbers import Noise
from bench_core.registry import configured
from bench_core.storage.outcomes import read_outcomes, write_lines, write_outcomes
from bench_core.task import Size, Split, Task

SHORT = 10.0  #: CPU seconds of a preparation up to which it is done twice
SAMPLES = 3  #: outputs of each decoding that a report may show


def prepare(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Prepare the data of a task."""
    inside = folder / "data"
    inside.mkdir()
    base = load_task(context, stage)[0] if "task" in stage.inputs else None
    task, began = _task_in(inside, stage, base), time.process_time()
    seeded = generators()  # what they draw is the same in each preparation
    info = task.prepare(context.data)
    check_info(info, task)
    checked, splits = CheckedTask(task, task.config.known(info)), _splits(stage)
    look = second_look("tasks", checked, laws(stage), splits)
    if time.process_time() - began < SHORT:
        with TemporaryDirectory(dir=folder) as place:
            again, drawn = _task_in(Path(place), stage, base), generators()
            restore(seeded)
            look.prepared_again(info, again.prepare(context.data), Path(place))
            restore(drawn)
    look.at_examples()
    info = task.config.known(_with_base(info, base, task))
    for split, texts in info.extras.get("texts", {}).items():
        if number := texts.get("unwritable"):
            lost: Fault = f"{number:,} of {texts['references']:,} references of {split!r}"
            text: Fault = "cannot be written by the tokens of models trained on it, which bounds their scores."
            context.warn(f"{named(task, 'prepare')}: {lost} {text}")
    if found := overlap(checked, splits, base):
        for text in overlaps(found):
            context.warn(f"{named(task, 'batches')}: {text}")
        info = replace(info, extras=joined([info.extras, {"overlap": found}]))
    (folder / "facts.json").write_text(json.dumps(asdict(info), ensure_ascii=False), encoding="utf-8")
    return {}


def _task_in(folder: Path, stage: Stage, base: CheckedTask | None) -> Task:
    """Return the task to prepare in a folder."""
    task: Task = built("task", stage.settings["task"], folder)
    task.base = base and base.task
    return task


def _splits(stage: Stage) -> Sequence[Split]:
    """Return the splits that a preparation is of."""
    split = stage.settings.get("split")
    return SPLITS if split is None else [split]


def _with_base(info: TaskInfo, base: CheckedTask | None, task: Task) -> TaskInfo:
    """Return what a split tells, with what its task tells of its training data; raise PluginError if they differ."""
    if base is None:
        return info
    for name in ("vocabulary", "source_vocabulary", "source_shape"):
        if [*getattr(info, name)] != [*getattr(base.info, name)]:
            raise gave(task, "prepare", f"a {name} for a split", "it is to be the one of its `base`.")
    known = {name: value for name, value in base.info.extras.items() if name != "texts"}  # of which none is asked
    return replace(info, counts=base.info.counts, extras=joined([known, info.extras]))


def initial(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Store a model with its initial weights, to be evaluated without training."""
    (task, info), device = load_task(context, stage), device_of(stage.settings)
    size, noise = Size(*stage.settings["size"]), Noise(stage.settings["seed"]).fork("train")
    with own_generators(device):
        model = initial_model(context, task, info, stage.settings, size, device, noise)
        return store_model(model, [], {"updates": 0}, folder)


def decode(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Decode the examples of a split with a trained model."""
    decoder = built("decoder", stage.settings["decoder"])
    with loaded_examples(context, stage, "decode") as (model, examples):
        outcomes = examples.decoded(model, decoder, folder)
    write_outcomes(folder / "outcomes.jsonl.gz", outcomes)
    shown = [sample_of(outcome) | _course(model, examples.task, outcome) for outcome in islice(outcomes, SAMPLES)]
    (folder / "samples.json").write_text(json.dumps(shown), encoding="utf-8")
    tokens = sum(one.length or 0 for outcome in outcomes for one in outcome.hypotheses[:1])
    return {"examples": len(outcomes), "tokens": tokens}


def score(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Score the examples of a split by a trained model."""
    by, trained = stage.settings["by"], context.input(stage, "model").manifest["ingredients"]["settings"]["model"]
    with loaded_examples(context, stage, "score") as (model, examples):
        outcomes = examples.scored(model, by, likelihood_kind(trained, by), folder)
    write_outcomes(folder / "outcomes.jsonl.gz", outcomes)
    return {"examples": len(outcomes), "tokens": sum(outcome.target_tokens for outcome in outcomes)}


def measure(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Measure outcomes by a metric."""
    import numpy as np

    from bench_core.computing import bootstrap
    from block_bootstrap import mark

    source = context.input(stage, "outcomes")
    outcomes = read_outcomes(source.file("outcomes.jsonl.gz"))
    split = source.manifest["ingredients"]["settings"]["split"]
    info = TaskInfo(**context.store.kept(*stage.inputs["task"]).json("facts.json"))
    metric, parts, value = measured(built("metric", stage.settings["metric"]), info, outcomes)
    groups = [one.id if one.group is None else one.group for one in outcomes] if metric.population == "sample" else []
    drawn = bootstrap.replicates(metric, parts, groups, info.consecutive)
    look = second_look("metrics", lambda: built("metric", stage.settings["metric"]), info, laws(stage))
    look.at_outcomes(outcomes, split)
    look.at_parts(metric, parts)
    ceiling = _ceiling(lambda: built("metric", stage.settings["metric"]), info, outcomes)
    number = {
        "value": _as_json(value),
        "examples": len(outcomes),
        "label": metric.label,
        "unit": metric.unit,
        "digits": metric.digits,
        "better": metric.better,
        "signature": metric.signature,
        "sample": mark((outcome.id for outcome in outcomes), groups, f"{stage.inputs['task'][1]} {split}"),
        "scale": metric.scale,
        "units": drawn.units,
        "block": drawn.block,
        "error": checked_error(metric, parts),
        "bounds": (bounds := metric.config.bounds()) and [_as_json(float(end)) for end in bounds],
        **({} if ceiling is None else {"ceiling": _as_json(ceiling)}),
    }
    np.save(folder / "draws.npy", drawn.draws, allow_pickle=False)
    _write_parts(folder / "parts.jsonl.gz", metric, parts)
    (folder / "number.json").write_text(json.dumps(number), encoding="utf-8")
    return {"examples": len(outcomes)}


def _write_parts(path: Path, metric: Metric[Any], parts: Sequence[Any]) -> None:
    try:
        write_lines(path, parts)
    except (TypeError, ValueError) as error:
        raise PluginError(f"{named(metric, 'measure')} gave parts that JSON cannot hold: {error}.") from None


def _ceiling(build: Callable[[], Metric[Any]], info: TaskInfo, outcomes: Sequence[Outcome]) -> float | None:
    """Return the score of the references as their tokens write them; None where they write all of them."""
    if not build().config.of_texts or all(one.written is None or one.written in one.references for one in outcomes):
        return None
    best = [replace(one, texts=[one.references[0] if one.written is None else one.written]) for one in outcomes]
    return measured(build(), info, best)[2]


def probe(context: StageContext, stage: Stage, folder: Path) -> dict[str, Any]:
    """Ask a probe about a trained model."""
    import torch

    asked = stage.settings["decoder"]
    decoder = configured("decoder", asked) if asked else None
    probe = built("probe", stage.settings["probe"])
    with loaded_examples(context, stage, "decode") as (model, examples), torch.no_grad():
        found = probe.ask(model.cpu(), decoder, examples.to_decode())
    model.to(examples.device)
    check_finding(found, probe)
    (folder / "finding.json").write_text(json.dumps(asdict(found), ensure_ascii=False), encoding="utf-8")
    return {}


def _as_json(value: float) -> float | str:
    """Return a number that JSON can represent: infinities and NaN as words."""
    return value if math.isfinite(value) else str(value)


def sample_of(outcome: Outcome) -> dict[str, Any]:
    """Return the sample of an example for reports."""
    first = outcome.hypotheses[0]
    told = {"log_prob": first.log_prob} if first.log_prob is not None and math.isfinite(first.log_prob) else {}
    return {
        "id": outcome.id,
        "prompt": outcome.prompt,
        "text": outcome.texts[0],
        "reference": outcome.references[0] if outcome.references else "",
        "finished": first.finished,
        "tokens": first.length,
        **told,
        **({"values": dict(first.values)} if first.values else {}),
    }


def _course(model: Any, task: Task, outcome: Outcome) -> dict[str, list[str]]:
    """Return the partial outputs of a generation that is not left to right."""
    actions, each = outcome.hypotheses[0].actions or [], getattr(model, "actions_per_token", 1)
    if each == 1:
        return {}
    return {"steps": [task.text(model.read(actions[:end])) for end in range(each, len(actions) + 1, each)]}
