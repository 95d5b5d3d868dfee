"""Checks that tasks, models, decoders and metrics are compatible, from their Configs alone."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench_core.config import DecoderConfig, MetricConfig, ModelConfig
from bench_core.data import Purpose
from bench_core.errors import SuiteError
from bench_core.model import Scorer, Vmappable
from bench_core.registry import parts
from bench_core.suites.cells import Cell, can_pair, cells_of, writes_text
from bench_core.suites.names import join_names
from bench_core.suites.parts import training_keys
from bench_core.suites.schema import Hardware
from bench_core.suites.suite import Entry, Suite
from bench_core.suites.training import Select
from placed_settings import Keys, Problems, Unreadable

ADVICE = "Choose another part, or list the pair under `skip:`."
UNKNOWN = ""  # stands for all names on an axis with invalid names


@dataclass(frozen=True)
class Misfit:
    """An incompatible pair of parts, or a part that cannot be used."""

    pair: str  # such as `words x lstm`
    reason: str
    keys: Keys  # the place in the suite


def check_fit(suite: Suite, cells: list[Cell]) -> None:
    """Raise SuiteError with every incompatible pair of parts."""
    incompatible, broken = misfits(suite, cells)
    if incompatible:
        width = max(len(misfit.pair) for misfit in incompatible)
        lines = [f"  {misfit.pair:<{width}}  {misfit.reason}" for misfit in incompatible]
        head = f"suite {suite.name}: {broken} of {len(cells)} cells cannot run."
        raise SuiteError("\n".join([head, *lines, ADVICE]))


def report_misfits(suite: Suite, problems: Problems) -> None:
    """Report every incompatible pair of parts at its place, even in a suite with other problems."""
    seeds, splits = suite.seeds[:1], getattr(suite, "splits", [UNKNOWN])
    hardware = getattr(suite, "hardware", {UNKNOWN: Hardware()})
    with suppress(Unreadable):
        incompatible, _ = misfits(suite, cells_of(suite, splits, hardware, seeds))
        pairs: dict[tuple[Keys, str], list[str]] = {}
        for misfit in incompatible:
            pairs.setdefault((misfit.keys, misfit.reason), []).append(misfit.pair)
        for (keys, text), names in pairs.items():
            advice = f" {ADVICE}" if " x " in names[0] else ""
            problems.add(keys, f"{join_names(names)}: {text}{advice}")


def misfits(suite: Suite, cells: list[Cell]) -> tuple[list[Misfit], int]:
    """Return the incompatible pairs of parts, and the number of affected cells."""
    by_names: dict[tuple[Any, ...], list[Misfit]] = {}
    broken = 0
    for cell in cells:
        names = (cell.task, cell.model, cell.decoder, cell.split, cell.metrics)
        if names not in by_names:
            by_names[names] = list(_misfits(suite, cell))
        broken += bool(by_names[names])
    incompatible = [misfit for several in by_names.values() for misfit in several]
    for check in (_selection_misfits, _vmap_misfits, _untrainable, _pairing_misfits, _seedless):
        incompatible += check(suite)
    return list({misfit.pair: misfit for misfit in incompatible}.values()), broken


def _misfits(suite: Suite, cell: Cell) -> Iterator[Misfit]:
    """Yield each incompatible pair of names in a cell; checks that read an invalid setting are skipped."""
    for check in (_source, _training_examples, _selection_splits, _decoder):
        with suppress(Unreadable):
            yield from check(suite, cell)
    for name in cell.metrics:
        for metric_check in (_refusal, _metric):
            with suppress(Unreadable):
                yield from metric_check(suite, cell, name)


def _source(suite: Suite, cell: Cell) -> Iterator[Misfit]:
    task, model = suite.tasks[cell.task], suite.models[cell.model].at(cell.task).config
    if task.source not in model.sources:
        name, takes = _name_in_suite(suite, cell.model), " or ".join(sorted(model.sources))
        text = f"{task.name} provides source {task.source}; {model.name} takes {takes}."
        yield Misfit(f"{cell.task} x {name}", text, ("models", name))
    if model.fits_on_validation() and Purpose.SCORE not in task.purposes("valid"):
        text = f"{task.name} has no targets in a split 'valid', on which settings of {model.name} are fitted."
        yield Misfit(f"{cell.task} x {cell.model}", text, ("models", _name_in_suite(suite, cell.model)))


def _training_examples(suite: Suite, cell: Cell) -> Iterator[Misfit]:
    task, trains = suite.tasks[cell.task], suite.models[cell.model].at(cell.task).training.trains
    if trains and "train" not in suite.splits and Purpose.TRAIN not in task.purposes("train"):
        yield Misfit(cell.task, f"{task.name} has no training examples.", ("tasks", cell.task))


def _selection_splits(suite: Suite, cell: Cell) -> Iterator[Misfit]:
    """Yield the splits for checkpoint selection or early stopping that the task does not have."""
    task, training = suite.tasks[cell.task], suite.models[cell.model].at(cell.task).training
    if not training.trains or Purpose.TRAIN not in task.purposes("train"):
        return
    for key in ("select", "stop"):
        select: Select | None = getattr(training, key)
        if select is None:
            continue
        metric = suite.metrics.get(select.metric)
        purpose = Purpose.TRAIN if metric is None else Purpose.SCORE if metric.needs is Scorer else Purpose.DECODE
        if purpose in task.purposes(select.split):
            continue
        lacks = "has no targets in its split" if task.purposes(select.split) else "has no split"
        train = f", or set `{key}: {{split: train}}` under `training`" if purpose in task.purposes("train") else ""
        text = f"{task.name} {lacks} {select.split!r}, which `{key}` needs. Add it{train}."
        keys = training_keys(suite.effective, _name_in_suite(suite, cell.model), cell.task, (key,))
        keys = keys if "split" in select.model_fields_set else ("tasks", cell.task)
        yield Misfit(f"{cell.task}, {key} by {select.metric}", text, keys)


def _decoder(suite: Suite, cell: Cell) -> Iterator[Misfit]:
    if cell.decoder is None:
        return
    model, name = suite.models[cell.model].at(cell.task).config, _name_in_suite(suite, cell.model)
    if reason := misfit(suite.decoders[cell.decoder], model):
        yield Misfit(f"{name} x {cell.decoder}", reason, ("decoders", cell.decoder))
    yield from _purpose(suite, cell, Purpose.DECODE, "decode")


def _untrainable(suite: Suite) -> Iterator[Misfit]:
    for name, task, entry in _trainings(suite):
        with suppress(Unreadable):
            if entry.training.trains and entry.config.is_untrainable():
                keys = training_keys(suite.effective, name, task, ("mode",))
                yield Misfit(name, f"{entry.config.name} cannot be trained. Remove its `training`.", keys)


def _pairing_misfits(suite: Suite) -> Iterator[Misfit]:
    """Yield models that cannot be paired with any decoder, and decoders that cannot be paired with any model."""
    with suppress(Unreadable):
        configs = {name: entry.config for name, _, entry in _trainings(suite)}
        for name, model in configs.items():
            if suite.decoders and not any(can_pair(decoder, model) for decoder in suite.decoders.values()):
                text = f"no decoder of this suite fits {model.name}. {_fitting(model)}"
                yield Misfit(name, text, ("models", name))
        for name, decoder in suite.decoders.items():
            if configs and not any(can_pair(decoder, model) for model in configs.values()):
                text = f"{decoder.name} does not fit any model of this suite. Remove it, or add a model for it."
                yield Misfit(name, text, ("decoders", name))


def _seedless(suite: Suite) -> Iterator[Misfit]:
    """Yield the models without cells, because they support none of the suite's seeds."""
    for name, _, entry in _trainings(suite):
        with suppress(Unreadable):
            if suite.seeds and not entry.config.seeds(suite.seeds):
                text = f"{entry.config.name} has none of the seeds {', '.join(map(str, suite.seeds))}. Set `seeds`."
                yield Misfit(name, text, ("models", name))


def _fitting(model: ModelConfig) -> str:
    """Return advice that names the installed decoders that fit a text generator."""
    kinds = ((name, part.config) for name, part in parts("decoder").items())
    decoders = [(name, kind) for name, kind in kinds if issubclass(kind, DecoderConfig)]
    names = [f"{{name: {name}}}" for name, kind in decoders if can_pair(kind, model)]
    return f"Add one under `decoders`: {' or '.join(names)}." if names else "Install a plugin that provides one."


def _refusal(suite: Suite, cell: Cell, name: str) -> Iterator[Misfit]:
    if reason := suite.metrics[name].refusal(suite.tasks[cell.task]):
        yield Misfit(f"{cell.task} x {name}", reason, ("metrics", name))


def _metric(suite: Suite, cell: Cell, name: str) -> Iterator[Misfit]:
    """Yield the requirements of a metric that the model or the suite does not meet."""
    metric, keys, pair = suite.metrics[name], ("metrics", name), f"{_name_in_suite(suite, cell.model)} x {name}"
    model = suite.models[cell.model].at(cell.task).config
    if metric.needs is not Scorer:
        if cell.decoder is None and not suite.effective.get("decoders"):
            yield Misfit(name, f"{metric.name} measures generated text; the suite has no decoders.", keys)
        if metric.of_tokens and writes_text(model):
            yield Misfit(pair, f"{metric.name} measures tokens; {model.name} returns only text.", keys)
        return
    if reason := misfit(metric, model):
        yield Misfit(pair, reason, keys)
    yield from _purpose(suite, cell, Purpose.SCORE, "score", name)
    likelihood = getattr(metric, "by", None)
    if likelihood is not None and model.likelihoods and likelihood not in model.likelihoods:
        known = ", ".join(model.likelihoods)
        yield Misfit(pair, f"{model.name} has no likelihood {likelihood!r}, only: {known}.", keys)


def _name_in_suite(suite: Suite, model: str) -> str:
    """Return the name under which the suite lists a model: its own name, or the name of its grid."""
    return suite.origins.get(model, model)


def misfit(part: DecoderConfig | MetricConfig, model: ModelConfig) -> str | None:
    """Return the reason why a decoder or metric cannot use a model with its settings, or None if it can."""
    if any(issubclass(capability, part.needs) for capability in model.capabilities):
        return model.lacks(part.needs)
    has = " and ".join(f"a {name}" for name in sorted(capability.__name__ for capability in model.capabilities))
    asks = ", ".join(sorted(part.needs.__abstractmethods__ - {"loss"}))
    return f"{part.name} needs a {part.needs.__name__} ({asks}); {model.name} is {has}."


def _purpose(suite: Suite, cell: Cell, purpose: Purpose, verb: str, metric: str = "") -> Iterator[Misfit]:
    if cell.split == UNKNOWN:
        return
    task = suite.tasks[cell.task]
    allowed = task.purposes(cell.split)
    pair = f"{cell.task} x {cell.split}"
    keys: Keys = ("splits", *(place for place, name in enumerate(suite.splits) if name == cell.split))
    if not allowed:
        splits = [split for split in ("train", "valid", "test", *task.test_sets) if task.purposes(split)]
        text = f"{task.name} has no split {cell.split!r}. Its `splits:` are {', '.join(splits)}."
        if "splits" not in suite.effective and task.test_sets:
            text, pair = f"{text} Set `splits: [{', '.join(task.test_sets)}]`.", f"{cell.task}, {cell.split}"
        yield Misfit(pair, text, keys)
    elif purpose not in allowed:
        pair = f"{pair} x {metric}" if metric else pair
        yield Misfit(pair, f"{task.name} has nothing to {verb} in its split {cell.split!r}.", keys)


def _trainings(suite: Suite) -> Iterator[tuple[str, str, Entry]]:
    """Yield the name, the task (or "") and the entry of every configuration of every model."""
    for name, model in suite.models.items():
        for task, entry in {"": model, **model.by_task}.items():
            yield _name_in_suite(suite, name), task, entry


def _selection_misfits(suite: Suite) -> Iterator[Misfit]:
    for name, task, entry in _trainings(suite):
        for key in ("select", "stop"):
            with suppress(Unreadable):
                if (select := getattr(entry.training, key)) is not None:
                    yield from _selection_misfit(suite, name, entry, select, key, task)


def _selection_misfit(suite: Suite, name: str, entry: Entry, select: Select, key: str, task: str) -> Iterator[Misfit]:
    metric = suite.metrics.get(select.metric)
    if metric is None:
        return
    if metric.needs is Scorer:
        reason = misfit(metric, entry.config)
    elif select.decoder is None:
        reason = f"{metric.name} measures generated text: name a decoder under `{key}:`."
    else:
        decoder = suite.decoders.get(select.decoder)
        reason = None if decoder is None else misfit(decoder, entry.config)
    if reason:
        keys = training_keys(suite.effective, name, task, (key,))
        yield Misfit(f"{name} x {key} {select.metric}", reason, keys)


def _vmap_misfits(suite: Suite) -> Iterator[Misfit]:
    for name, task, entry in _trainings(suite):
        with suppress(Unreadable):
            is_vmappable = any(issubclass(capability, Vmappable) for capability in entry.config.capabilities)
            if entry.training.vmap_seeds and entry.training.trains and not is_vmappable:
                advice = "Set `training: {vmap_seeds: false}` for it."
                text = f"{entry.config.name} cannot train seeds together. {advice}"
                keys = training_keys(suite.effective, name, task, ("vmap_seeds",))
                yield Misfit(f"{name} x vmap_seeds", text, keys)


def needs_scores(metrics: Mapping[str, MetricConfig], name: str) -> bool:
    """Return whether a metric uses likelihoods rather than generated text."""
    return metrics[name].needs is Scorer
