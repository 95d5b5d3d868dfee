"""Finished runs of suites of which nothing was computed: every number is invented."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from bench_core.computing.part_class import part_class
from bench_core.planning.planner import likelihood
from bench_core.runs.results import CellResult, Run, Score
from bench_core.runs.run_suite import effective_suite
from bench_core.suites import yaml_source
from bench_core.suites.cells import Cell, cells_of
from bench_core.suites.load import load
from bench_core.suites.suite import Suite
from placed_settings import as_yaml

LARGE = {"%": 30.0, "tokens": 30.0, "": 300.0}  #: numbers that are as wide as such usually are, by unit


def invented_run(path: Path, profile: str | None, folder: Path) -> Run:
    """Return a run of a suite whose cells are all done, with as many seeds as it declares."""
    suite, dice = load(path, profile), random.Random(0)
    built = {name: part_class(config)(config) for name, config in suite.metrics.items()}
    cells = [CellResult(one.axes, "done", "", _numbers(suite, built, one, dice)) for one in cells_of(suite)]
    file, grids = effective_suite(yaml_source.parse(as_yaml(suite.effective)))
    return Run(folder, file, {"label": suite.name, "samples": []}, cells, suite.sections, grids)


def _numbers(suite: Suite, built: Mapping[str, object], cell: Cell, dice: random.Random) -> dict[str, Score]:
    return {name: _number(suite, name, built[name], cell, dice) for name in cell.metrics}


def _number(suite: Suite, name: str, metric: object, cell: Cell, dice: random.Random) -> Score:
    _, kind = likelihood(suite.metrics[name], suite.models[cell.model].at(cell.task).config)
    about = {key: getattr(metric, key) for key in ("label", "unit", "digits", "better", "signature")}
    value = LARGE.get(about["unit"], 10.0) * dice.uniform(0.98, 1.02)
    return Score(value, examples=1000, kind=kind, **about)
