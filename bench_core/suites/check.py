"""Checks that tasks, models, decoders and metrics are compatible, by their Configs alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench_core.config import DecoderConfig, MetricConfig, ModelConfig, TaskConfig
from bench_core.data import Purpose
from bench_core.errors import SuiteError
from bench_core.model import Scorer, Vmappable
from bench_core.suites.cells import Cell
from bench_core.suites.suite import Suite


def check_fit(suite: Suite, cells: list[Cell]) -> None:
    """Raise SuiteError with every incompatible pair of parts."""
    misfits: dict[str, str] = {}
    broken = set()
    for cell in cells:
        for pair, sentence in _misfits(suite, cell):
            misfits[pair] = sentence
            broken.add(cell)
    misfits |= {**dict(_selection_misfits(suite)), **dict(_together_misfits(suite))}
    if misfits:
        width = max(map(len, misfits))
        lines = [f"  {pair:<{width}}  {sentence}" for pair, sentence in misfits.items()]
        head = f"suite {suite.name}: {len(broken)} of {len(cells)} cells cannot run."
        raise SuiteError("\n".join([head, *lines, "Choose another part, or list the pair under `skip:`."]))


def _misfits(suite: Suite, cell: Cell) -> Iterator[tuple[str, str]]:
    """Yield each incompatible pair of names in a cell, and why."""
    task, model = suite.tasks[cell.task], suite.models[cell.model].at(cell.task).config
    called = suite.origins.get(cell.model, cell.model)
    if task.source not in model.sources:
        takes = " or ".join(sorted(model.sources))
        yield f"{cell.task} x {called}", f"{task.name} provides source {task.source}; {model.name} takes {takes}."
    if "train" not in suite.splits and Purpose.TRAIN not in task.purposes("train"):
        yield cell.task, f"{task.name} has no training examples."
    if cell.decoder is not None:
        yield from _pairs(f"{called} x {cell.decoder}", suite.decoders[cell.decoder], model)
        yield from _purpose(task, cell, Purpose.DECODE, "decode")
    for name in cell.metrics:
        metric = suite.metrics[name]
        reason = metric.refusal(task)
        if reason:
            yield f"{cell.task} x {name}", reason
        if metric.needs is not Scorer:
            if cell.decoder is None:
                yield name, f"{metric.name} measures generated text; the suite has no decoders."
            continue
        yield from _pairs(f"{called} x {name}", metric, model)
        yield from _purpose(task, cell, Purpose.SCORE, "score", name)
        by = getattr(metric, "by", None)
        if by is not None and model.likelihoods and by not in model.likelihoods:
            known = ", ".join(model.likelihoods)
            yield f"{called} x {name}", f"{model.name} cannot score by {by!r}, only by: {known}."


def _pairs(pair: str, part: DecoderConfig | MetricConfig, model: ModelConfig) -> Iterator[tuple[str, str]]:
    reason = misfit(part, model)
    if reason:
        yield pair, reason


def misfit(part: DecoderConfig | MetricConfig, model: ModelConfig) -> str | None:
    """Return why a decoder or metric cannot use a model, or None if it can."""
    if any(issubclass(capability, part.needs) for capability in model.capabilities):
        return None
    has = " and ".join(
        f"a {capability.__name__}" for capability in sorted(model.capabilities, key=lambda one: one.__name__)
    )
    asks = ", ".join(sorted(part.needs.__abstractmethods__ - {"loss"}))
    return f"{part.name} needs a {part.needs.__name__} ({asks}); {model.name} is {has}."


def _purpose(
    task: TaskConfig, cell: Cell, purpose: Purpose, verb: str, metric: str = ""
) -> Iterator[tuple[str, str]]:
    allowed = task.purposes(cell.split)
    pair = " x ".join(filter(None, (cell.task, cell.split, metric)))
    if not allowed:
        yield pair, f"{task.name} has no split {cell.split!r}."
    elif purpose not in allowed:
        yield pair, f"{task.name} has nothing to {verb} in its split {cell.split!r}."


def _selection_misfits(suite: Suite) -> Iterator[tuple[str, str]]:
    for name, entry in ((name, one) for name, model in suite.models.items() for one in model.all):
        select = entry.training.select
        metric = suite.metrics.get(select.metric)
        if metric is None:
            continue
        pair = f"{suite.origins.get(name, name)} x select {select.metric}"
        if metric.needs is Scorer:
            reason = misfit(metric, entry.config)
        elif select.decoder is None:
            reason = f"{metric.name} measures generated text: name a decoder under `select:`."
        else:
            reason = misfit(suite.decoders[select.decoder], entry.config)
        if reason:
            yield pair, reason


def _together_misfits(suite: Suite) -> Iterator[tuple[str, str]]:
    for name, entry in ((name, one) for name, model in suite.models.items() for one in model.all):
        if entry.training.together and not any(issubclass(given, Vmappable) for given in entry.config.capabilities):
            reason = f"{entry.config.name} cannot be trained together. Set `training: {{together: false}}` for it."
            yield f"{suite.origins.get(name, name)} x together", reason


def needs_scores(metrics: Mapping[str, MetricConfig], name: str) -> bool:
    """Return whether a metric measures likelihoods rather than generated text."""
    return metrics[name].needs is Scorer
