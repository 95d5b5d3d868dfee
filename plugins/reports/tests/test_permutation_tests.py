"""Permutation tests in tables: done from the store, kept with the run, and told in reports made from that alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from zipfile import ZipFile

import bench_small.plugin
import pytest
from bench_small.runs import with_sections
from bench_small.suites import SUITE

import bench_core
from bench_core import registry
from bench_core.errors import StoreError
from bench_core.runs.results import read_run
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_exchange.exporting import export_run
from bench_exchange.merge import merge
from bench_reports.content.contrasts import contrast
from bench_reports.content.example_diff import StoredEvidence
from bench_reports.content.permutation_tests import (
    FILE,
    PERMUTATIONS_PER_PAIR,
    keep_permutations,
    pair_name,
    permutations,
    write_permutations,
)
from bench_reports.content.table_notes import footnotes
from bench_reports.content.tables import grids
from bench_reports.language.of_suite import language
from bench_reports.render.records import records
from bench_reports.render.report import write_report
from bench_reports.statistics.permutation import REPLICATES
from bench_reports.verification.run import verify_run

TESTED = SUITE.replace("values: [ended, nats]}", "values: [ended, nats], test: permutation}").replace(
    "rows: [decoder], columns: [model]", "rows: [model, decoder]"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exchanged")
    (folder / "suite.yaml").write_text(TESTED)
    with registry.extra(bench_small.plugin):
        run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs")
    return run.folder, folder / "store"


@pytest.fixture
def run(made, tmp_path):
    """Return the run in a folder of its own, without permutation tests."""
    shutil.copytree(made[0], tmp_path / "run")
    (tmp_path / "run" / FILE).unlink(missing_ok=True)
    return read_run(tmp_path / "run")


@pytest.fixture
def store(made, small):
    return Store(made[1])


def compared(grid):
    """Yield the best of a column, another, and the p-value of their test."""
    for test in grid.tests:
        yield grid.entries[test.first[0]][test.first[1]], grid.entries[test.other[0]][test.other[1]], test


def pairs_of(grid):
    """Return how many pairs the rows of a table make."""
    return len(grid.rows) * (len(grid.rows) - 1) // 2


def test_a_table_has_the_p_values_of_the_exchanges_that_diff_makes(run, store):
    assert keep_permutations(run, grids(run), store) == {}
    (grid,) = grids(run)
    number = max(REPLICATES, PERMUTATIONS_PER_PAIR * pairs_of(grid))
    assert len(grid.tests) >= 6
    for ours, theirs, test in compared(grid):
        name = grid.columns[test.first[1]].value
        cells = {one.artifacts[f"measure/{name}"]: one for one in run.cells}
        pairs = [(cells[a], cells[b]) for a, b in zip(ours.keys, theirs.keys, strict=True)]
        assert len(pairs) == 2
        assert test.p == StoredEvidence(store).evidence(contrast(name, pairs)).p_value(number)
        assert test.exchanges == number
    assert any(0 < test.p < 1 for test in grid.tests)


def test_marks_and_corrected_values_follow_the_test_of_the_table(run, store):
    keep_permutations(run, grids(run), store)
    (grid,) = grids(run)
    told = {name: one.model_dump() for name, one in permutations(run).items()}
    for p, bold in ((1.0, False), (0.0001, True)):
        (run.folder / FILE).write_text(json.dumps({name: {**one, "p": p} for name, one in told.items()}))
        (changed,) = grids(run)
        assert all(entry.best is bold for entry in (ours for ours, _, _ in compared(changed)))
        expected = min(1.0, p * pairs_of(grid))
        assert [line["p"] for line in records(changed) if line["p"] is not None] == pytest.approx(
            [expected] * len(grid.tests), rel=1e-3
        )


def test_the_footnote_names_the_test_and_how_many_exchanges_it_is_of(run, store):
    before = " ".join(footnotes(run, grids(run)[0]))
    assert "No permutation tests: the run has only 0 of the" in before
    assert "paired test over examples and seeds" in before
    keep_permutations(run, grids(run), store)
    after = " ".join(footnotes(run, grids(run)[0]))
    assert "paired permutation test, 1,000 permutations of examples; these training runs only" in after
    assert "over examples and seeds" not in after
    models = {name: {**about, "updates": 0} for name, about in run.info["models"].items()}
    untrained = replace(run, info={**run.info, "models": models})
    assert "permutations of examples; p < 0.05" in " ".join(footnotes(untrained, grids(untrained)[0]))
    assert "Minimum detectable" not in after, "its error is that of other trainings, too"


def test_a_table_that_does_not_ask_is_tested_by_the_bootstrap(run, store):
    keep_permutations(run, grids(run), store)
    table = language(run).tables[0].model_copy(update={"test": "bootstrap"})
    other = with_sections(run, tables=[table])
    assert keep_permutations(other, grids(other), store) == {}
    (grid,) = grids(other)
    assert not any(test.exchanges for test in grid.tests)
    assert "paired test over examples and seeds" in " ".join(footnotes(other, grid))


def test_a_report_needs_no_store_once_the_tests_are_kept(run, store, tmp_path):
    keep_permutations(run, grids(run), store)
    first = {path.name: path.read_bytes() for path in write_report(read_run(run.folder), tmp_path / "a")}
    assert first == {path.name: path.read_bytes() for path in write_report(read_run(run.folder), tmp_path / "b")}
    assert b"paired permutation test" in first["report.md"]


def test_what_is_kept_is_not_done_again_and_does_not_depend_on_the_order(run, store, monkeypatch):
    keep_permutations(run, grids(run), store)
    content = (run.folder / FILE).read_bytes()
    monkeypatch.setattr(StoredEvidence, "evidence", lambda *_: pytest.fail("done again"))
    assert keep_permutations(run, grids(run), store) == {}
    assert (run.folder / FILE).read_bytes() == content
    ours, theirs, _ = next(compared(grids(run)[0]))
    assert pair_name(ours, theirs) == pair_name(theirs, ours)


def test_without_the_examples_the_reasons_are_told_and_nothing_is_kept(run, small, tmp_path):
    reasons = keep_permutations(run, grids(run), Store(tmp_path / "empty"))
    assert {*reasons} == {"main, ended", "main, nats"}
    assert not (run.folder / FILE).exists()


def test_numbers_of_different_seeds_are_not_exchanged(run, store):
    (grid,) = grids(run)
    _, other, test = next(compared(grid))
    name = grid.columns[test.first[1]].value
    cells = [
        replace(one, cell={**one.cell, "seed": one.cell["seed"] + 7})
        if one.artifacts[f"measure/{name}"] in other.keys else one
        for one in run.cells
    ]  # fmt: skip
    changed = replace(run, cells=cells)
    reasons = keep_permutations(changed, grids(changed), store)
    assert reasons[f"main, {name}"] == "the seeds differ: 0, 1 and 7, 8"


@pytest.mark.parametrize("content", ["", "[]", '{"a": {"p": 2, "draws": 9}}', '{"a": {"p": 0.5}}', '{"a": {"p": NaN, "draws": 9}}'])  # fmt: skip
def test_damaged_tests_are_told_of_and_no_number_is_made_of_them(run, content):
    (run.folder / FILE).write_text(content)
    with pytest.raises(StoreError, match=r"permutations\.json cannot be read"):
        grids(run)


def test_a_table_of_settings_has_nothing_to_test(suite_file):
    table = "{id: s, of: tasks, values: [vocabulary], test: permutation}"
    with pytest.raises(bench_core.SuiteError, match="a table of tasks has no per-example scores to test"):
        load(suite_file(SUITE.replace("profiles:", f"  - {table}\nprofiles:")))


def test_a_run_keeps_its_tests_and_carries_them_elsewhere(made, tmp_path):
    folder, store = made
    kept = json.loads((folder / FILE).read_text())
    assert kept, "done where the run was"
    with registry.extra(bench_small.plugin):
        merged = merge([folder, shutil.copytree(folder, tmp_path / "again")], tmp_path).folder
        export_run(read_run(folder), Store(store), tmp_path / "run.zip")
    assert json.loads((merged / FILE).read_text()) == kept
    with ZipFile(tmp_path / "run.zip") as bundle:
        name = next(name for name in bundle.namelist() if name.endswith(FILE))
        assert json.loads(bundle.read(name)) == kept


def test_a_forged_p_value_is_found_by_the_examples_in_the_store(run, store):
    keep_permutations(run, grids(run), store)
    assert [*verify_run(run, store)] == []
    kept = permutations(run)
    name, true = next((name, one) for name, one in kept.items() if 0 < one.p < 1)
    write_permutations(run.folder, {**kept, name: true.model_copy(update={"p": true.p / 2})})
    remarks = [*verify_run(run, store)]  # one for each table that has the pair
    assert remarks
    assert all(remark.wrong for remark in remarks)
    said = f"p is {true.p / 2}, but {true.p} from the examples in the store"
    assert all(said in remark.text for remark in remarks)
    (remark,) = verify_run(run, None)
    assert (remark.wrong, remark.text) == (False, f"{run.folder / FILE}: the store is not available")
