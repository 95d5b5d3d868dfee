"""Names of before are read for one release, with a warning that has the new name."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
import yaml
from bench_small.command_line import bench_here
from bench_small.suites import SUITE
from rename_settings import renamed

import bench_core
from bench_core import Batch, Generation, Prediction, Rng, Scoring, SuiteError, Training
from bench_core.runs.results import read_run
from bench_core.suites.load import load


@pytest.mark.parametrize(
    ("old", "new"), [("Noise", "Rng"), ("Outcome", "Prediction"), ("kept_on_host", "cached_on_host")]
)
def test_a_name_of_the_core_is_found_under_its_former_name(old, new):
    with pytest.warns(FutureWarning, match=f"`bench_core.{old}` is now called `{new}`"):
        assert getattr(bench_core, old) is getattr(bench_core, new)


def test_names_of_other_distributions_are_found_under_their_former_names():
    for module, old, new in [
        ("bench_text.api", "listed", "as_list"), ("bench_reports.api", "Table", "TableBlock"),
        ("bench_reports.api", "Cell", "TableCell"), ("bench_translation.api", "Files", "ParallelFiles"),
        ("bench_translation.api", "Lines", "CorpusLines"), ("bench_translation.api", "Pair", "FilePair"),
    ]:  # fmt: skip
        names = importlib.import_module(module)
        with pytest.warns(FutureWarning, match=f"`{module}.{old}` is now called `{new}`"):
            assert getattr(names, old) is getattr(names, new)


def test_fields_are_read_under_their_former_names():
    tokens = torch.zeros(1, 2, dtype=torch.long)
    batch = Batch(torch.arange(1), tokens[:, :1], tokens, torch.tensor([2]))
    with pytest.warns(FutureWarning, match="`Batch.opening` is now called `prompt`"):
        assert batch.opening is batch.prompt
    for given in (Scoring("exact", Rng(3)), Training(0, 1, 0, 1, Rng(3)), Generation(None, "test", 0, Rng(3), None)):
        with pytest.warns(FutureWarning, match=f"`{type(given).__name__}.noise` is now called `rng`"):
            assert given.noise is given.rng


def test_unknown_names_are_no_former_names():
    for name in ("Nois", "outcome"):
        with pytest.raises(AttributeError, match=name):
            getattr(bench_core, name)
    assert Prediction.__name__ == "Prediction"


VMAPPED = SUITE.replace("training: {", "training: {vmap_seeds: true, ", 1)
FORMER = VMAPPED.replace("vmap_seeds", "together")


@pytest.fixture
def suite(suite_file):
    return suite_file(FORMER)


def test_a_suite_with_a_former_setting_is_that_with_the_new_one_and_a_note(suite, tmp_path):
    (tmp_path / "new.yaml").write_text(VMAPPED)
    found, expected = load(suite), load(tmp_path / "new.yaml")
    assert {name: entry.training for name, entry in found.models.items()} == {
        name: entry.training for name, entry in expected.models.items()
    }
    line = FORMER[: FORMER.index("together")].count("\n") + 1
    (note,) = [note for note in found.notes if "together" in note]
    assert note.startswith(f"{suite}:{line}:")
    assert "`together` is now called `vmap_seeds`" in note
    assert "tools/rename_settings.py" in note
    assert not [note for note in expected.notes if "vmap_seeds" in note]


def test_a_setting_under_both_names_is_an_error_with_both(suite):
    suite.write_text(FORMER.replace("together: true", "together: true, vmap_seeds: false"))
    with pytest.raises(SuiteError, match="`together` is the former name of `vmap_seeds`, which is also set"):
        load(suite)


def test_a_former_setting_on_the_command_line_counts(suite):
    suite.write_text(SUITE)
    found = load(suite, None, ["training.together=true"])
    assert {entry.training.vmap_seeds for entry in found.models.values()} == {True}
    assert ["--set training.together" in note for note in found.notes] == [True]


SHAPES = {
    "flow": "training: {epochs: 1, together: true}",
    "block": "training:\n  epochs: 1\n  together: true  # together\n",
    "quoted": 'training: {"together": true}',
    "next line": "training:\n  together:\n    true\n",
    "profile": "profiles: {a: {training: {together: false}}}\ntraining: {together: true}",
    "alias": "models:\n  a: &a {training: {together: false}}\n  b: *a\n",
    "value": "title: together\nmodels: {together: {training: {together: true, name: together}}}",
    "elsewhere": "together: true\nmodel: {together: 1}",
    "new": "training: {vmap_seeds: true}",
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_script_renames_settings_and_nothing_else(name):
    text = SHAPES[name]

    def expected(data, inside=None):
        if isinstance(data, dict):
            return {
                "vmap_seeds" if (inside, key) == ("training", "together") else key: expected(value, key)
                for key, value in data.items()
            }
        return data

    new = renamed(text)
    assert yaml.safe_load(new) == expected(yaml.safe_load(text))
    assert new.count("\n") == text.count("\n")
    assert new.count("together") == text.count("together") - new.count("vmap_seeds") + text.count("vmap_seeds")
    assert renamed(new) == new


def test_runs_stored_results_and_exports_of_version_0_2_are_read(tmp_path):
    """Of seeds trained as one model, whose kind of stage, settings, inputs and files had other names."""

    def bench(*words):
        done = bench_here(*words, folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    bench("import", str(Path(__file__).parent / "recorded" / "former.zip"), "--trust")
    (run,) = map(str, (tmp_path / "runs").iterdir())
    assert "1 run, 2 cells, 4 numbers, 12 artifacts: no contradictions" in bench("verify", run)
    bench("report", run, "--out", "reports")
    assert "1 report, 1 run, 2 cells, 4 numbers, 12 artifacts: no contradictions" in bench("verify", "reports")
    bench("outputs", run, "--out", "outputs.jsonl")
    assert len((tmp_path / "outputs.jsonl").read_text().splitlines()) == 36
    assert "output: " in bench("show", run, "letters/sample/test", "seed=0")
    bench("export", run, "--output", "again.zip")
    assert {cell.status for cell in read_run(Path(run)).cells} == {"done"}
    assert read_run(Path(run)).suite.training["vmap_seeds"] is True
