"""A suite without tables gets one of all its numbers; a metric that `--set` adds is shown."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from bench_small.runs import cell, number, run_of, with_suite, written

from bench_reports.content.tables import grids
from bench_reports.render.report import screen

AXES = ("task", "model", "decoder", "split", "hardware")


def a_run(tmp_path, names, metrics, changes=(), **sections):
    """Return a run with all combinations of `names`, whose numbers are distinct, and the texts of these numbers."""
    values, cells = {}, []
    for place, several in enumerate(product(*(names.get(axis, [None]) for axis in AXES))):
        axes = dict(zip(AXES, several, strict=True))
        numbers = {metric: number(100 * place + turn + 0.25, digits=2) for turn, metric in enumerate(metrics)}
        one = cell("rnn", "greedy", 0, numbers)
        cells.append(replace(one, cell={**one.cell, **{axis: name for axis, name in axes.items() if name}}))
        values[several] = [f"{found.value:.2f}" for found in numbers.values()]
    suite = {
        "suite": "tests/report", "metrics": {metric: {"name": metric} for metric in metrics},
        "tasks": {name: {"name": "words"} for name in names.get("task", ["words"])},
        "models": {name: {"name": "m"} for name in names.get("model", ["rnn"])},
        "decoders": {name: {"name": "d"} for name in names.get("decoder", ["greedy"])},
        "splits": names.get("split", ["test"]),
        "hardware": {name: {} for name in names["hardware"]} if "hardware" in names else {},
        **sections,
    }  # fmt: skip
    found = with_suite(run_of(tmp_path, cells, {}, changes=list(changes)), {"tables": [], **suite})
    return found, [text for texts in values.values() for text in texts]


@pytest.mark.quick(6, 8)
@pytest.mark.parametrize("seed", range(30))
def test_every_number_is_in_the_one_table_whatever_axes_a_suite_has(tmp_path, seed):
    rng = random.Random(seed)
    names = {axis: [f"{axis}{place}" for place in range(rng.randint(1, 3))] for axis in AXES}
    found, values = a_run(tmp_path, names, [f"m{place}" for place in range(rng.randint(1, 3))])
    (grid,) = grids(found)
    means = [f"{entry.summary.mean:.2f}" for row in grid.entries for entry in row]
    assert sorted(means) == sorted(values)
    assert {*grid.table.rows, *grid.table.columns} - {"model"} == {
        axis for axis in AXES if len(names[axis]) > 1 and axis != "model"
    }


def test_it_is_on_screen_and_in_every_format(tmp_path):
    found, values = a_run(tmp_path, {"task": ["a", "b"], "decoder": ["greedy", "beam"]}, ["rate", "nats"])
    files = written(found, tmp_path / "report")
    texts = [files[name].decode() for name in ("report.md", "report.html", "tables/results.tex")]
    assert all(value in text for text in [*texts, screen(found, 100)] for value in values)
    assert "tables/results" in files["report.tex"].decode()
    assert all(value.rstrip("0") in files["tables/results.csv"].decode() for value in values)


def test_a_single_cell_has_a_row_of_its_model(tmp_path):
    (grid,) = grids(a_run(tmp_path, {}, ["rate"])[0])
    assert [row.label for row in grid.rows] == ["rnn"]


MAIN = {"id": "results", "rows": ["model"], "values": ["rate"]}


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ((), []),
        (["metrics.nats"], ["nats"]),
        (["metrics.nats.scale"], ["nats"]),
        (["metrics"], ["nats"]),
        (["metrics.rate"], []),
        (["metrics.na", "metrics.natsy", "training.lr"], []),
    ],
)
def test_a_metric_of_no_table_is_shown_if_it_was_set(tmp_path, changes, added):
    run, _ = a_run(tmp_path, {}, ["rate", "nats"], changes, tables=[MAIN])
    first, *others = grids(run)
    assert first.table.id == "results"
    assert [value for grid in others for value in grid.table.values] == added


def test_no_table_or_figure_loses_its_name_to_the_added_one(tmp_path):
    tables = [{**MAIN, "id": name} for name in ("added", "added-all")]
    found, _ = a_run(tmp_path, {}, ["rate", "nats"], ["metrics.nats"], tables=tables)
    assert [grid.table.id for grid in grids(found)] == ["added", "added-all", "added-all-all"]
