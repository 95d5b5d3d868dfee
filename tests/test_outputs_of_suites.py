"""`bench outputs` and `bench_notebook.load` give back every prediction of the suites that are shipped, in their smoke profiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_small import read_back
from bench_small.suites import on_device

import bench_core
import bench_notebook
from bench_core import DataError, SuiteError
from bench_core.stage_kinds import PREDICTIONS
from bench_core.storage.predictions import read_predictions
from bench_core.storage.store import Store
from bench_core.suites import yaml_source as located
from bench_exchange.outputs import Outputs

SUITES = Path(__file__).parent.parent / "suites"
FILES = [path for path in sorted(SUITES.rglob("*.yaml")) if path.parent.name != "references"]
SHORT = ["training.updates=2", "limits.examples=4", "limits.scored=8", "limits.max_tokens=12"]
SLOW = ("quickstart", "diagnostics", "indigo/table-6", "rnn/search")  # decoded, scored, inserted, with n best


def everything(run, store):
    """Return the predictions of each artifact that a cell names, by kind and key; all that are done have theirs."""
    names = {(name.partition("/")[0], key): one.status for one in run.cells for name, key in one.artifacts.items()}
    found = {}
    for (kind, key), status in names.items():
        path = store.path(kind, key) / PREDICTIONS
        if kind in ("decode", "score") and (status == "done" or path.exists()):
            found[kind, key] = [*read_predictions(path)]
    return found


def check(path, folder):
    """Run a suite; compare what comes out in each way with what its stages left."""
    store = Store(folder / "store")
    run = bench_core.run(
        path,
        profile="smoke",
        settings=[*SHORT, *on_device(path, "cpu")],
        seeds=1,
        store=store.root,
        out=folder / "runs",
    )
    if not run.cells:
        with pytest.raises(SuiteError, match="the run has no cells: its suite has no models"):
            [*Outputs(run, store).lines("jsonl")]
        return None
    expected = everything(run, store)
    loaded = bench_notebook.load(run.folder, store.root)
    several = [one for one in loaded.all_outputs() if (one.kind, one.key) in expected]
    lost = [one.name for one in loaded.all_outputs() if (one.kind, one.key) not in expected]
    assert {(one.kind, one.key) for one in several} == {*expected}
    places = {}
    for one in several:
        assert repr([*one]) == repr(expected[one.kind, one.key])  # as text: no NaN equals another
        places[(one.kind, *(one.cell.get(axis) for axis in read_back.AXES), one.by)] = one
    assert len(places) == len(several)
    for form, read in (("jsonl", read_back.of_json), ("csv", read_back.of_csv)):
        outputs = Outputs(run, store)
        found = read("".join(outputs.lines(form)))
        assert [text.partition(": ")[0] for text in outputs.problems] == lost
        assert {*found} == {*places}
        for place, predictions in found.items():
            assert repr(predictions) == repr(expected[places[place].kind, places[place].key])
    return expected


@pytest.mark.nightly
@pytest.mark.parametrize("name", SLOW)
def test_every_prediction_of_some_suites_comes_back(name, tmp_path):
    found = check(SUITES / f"{name}.yaml", tmp_path)
    assert sum(map(len, found.values())) > 8


@pytest.mark.nightly
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES).with_suffix("")))
def test_every_prediction_of_every_suite_comes_back(path, tmp_path):
    if "smoke" not in located.read(path).data.get("profiles", {}):
        pytest.skip("it has no profile `smoke`")
    try:
        check(path, tmp_path)
    except DataError as error:
        pytest.skip(str(error))
