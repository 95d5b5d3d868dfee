"""The suites that are shipped: they fit, in every profile, and editors know their keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from bench_authors.commands.schema import schema
from bench_core.commands.main import bench
from bench_core.suites import yaml_source as located
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_reports.language.of_suite import language

SUITES = Path(__file__).parent.parent / "suites"
FILES = [path for path in sorted(SUITES.rglob("*.yaml")) if path.parent.name != "references"]


@pytest.mark.quick(12)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES)))
def test_a_shipped_suite_fits_in_every_profile(path):
    for profile in (None, *located.read(path).data.get("profiles", ())):
        suite = load(path, profile)
        check_fit(suite, cells_of(suite))
        assert language(suite).tables
        assert str(path.relative_to(SUITES).with_suffix("")) == suite.name


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda folder: folder.name)
def test_bench_check_says_nothing_against_any_suite_or_profile(folder):
    files = [path for path in FILES if path.parent == folder]
    found = CliRunner().invoke(bench, ["check", "--elsewhere", *map(str, files)], standalone_mode=False)
    assert found.exception is None, found.exc_info
    assert found.stderr == ""
    assert found.stdout.count("no problem found") == sum(
        1 + len(located.read(path).data.get("profiles", ())) for path in files
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES)))
def test_editors_find_the_schema(path):
    line = path.read_text().splitlines()[0]
    assert (path.parent / line.partition("$schema=")[2]).resolve() == (SUITES / "suite.schema.json").resolve()


@pytest.fixture(scope="module")
def editor():
    """What an editor that reads the schema objects to: the places of a suite."""
    validator = Draft202012Validator(schema())
    return lambda suite: [[*error.absolute_path] for error in validator.iter_errors(suite)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES)))
def test_editors_find_nothing_wrong_with_a_shipped_suite(path, editor):
    assert editor(located.read(path).data) == []


def test_editors_take_a_name_for_a_list_of_one_and_know_what_is_no_axis(editor):
    tasks = {"cycle": {"name": "language-modeling", "corpus": {"name": "cycle"}}}
    table = {"id": "t", "rows": "model", "values": ["perplexity"], "where": {"split": "test"}}
    suite = {"suite": "s", "tasks": tasks, "tables": [table], "skip": [{"model": "gru"}]}
    assert editor(suite) == []
    assert editor(suite | {"tables": [table | {"where": {"slit": "test"}}]}) == [["tables", 0, "where"]]
    assert editor(suite | {"skip": [{"model": 3}]}) == [["skip", 0, "model"]]
    assert editor(suite | {"tables": [table | {"rows": "modl"}]}) == [["tables", 0, "rows"]]


def settings_of(schema):
    """Return the settings of every part, which do not depend on how a release of pydantic words a schema."""
    return {
        (kind, tuple(one["properties"]["name"]["enum"]), tuple(one["properties"]))
        for kind in ("tasks", "models", "decoders", "metrics")
        for one in schema["properties"][kind]["additionalProperties"]["anyOf"]
    }


def test_the_shipped_schema_is_that_of_the_installed_parts():
    shipped = json.loads((SUITES / "suite.schema.json").read_text())
    assert settings_of(shipped) == settings_of(schema()), "run `make schema`"
    assert set(shipped["properties"]) == set(schema()["properties"])


def test_table_1_of_strlm_asks_for_what_the_paper_did():
    suite = load(SUITES / "strlm" / "table-1.yaml")
    assert len(cells_of(suite)) == 2 * 12 * 10
    assert {name: entry.config.dropout for name, entry in suite.models.items()} == {"tanh-rnn": 0.5, "lstm": 0.3}
    assert all(entry.config.hidden == 256 and not entry.config.tied for entry in suite.models.values())
    assert {config.max_tokens for config in suite.decoders.values()} == {1500}
    assert suite.metrics["non-termination"].limit == 1500
    assert set(language(suite).published["strlm-t1"].rows) == {
        name.replace("top-k", "topk") for name in suite.decoders
    }
    for entry in suite.models.values():
        assert (entry.training.patience, entry.training.epochs, entry.training.clip.norm) == (10, 100, 1.0)


def test_table_1_of_ssm_tells_of_how_many_trainings_each_published_number_is():
    printed = language(load(SUITES / "ssm" / "table-1.yaml")).published["ssm-t1"]
    for name, values in printed.rows.items():
        for value in values.values():
            several = 10 if "K=" in name else 5
            assert (value.runs or printed.runs) == (1 if value.std is None else several), name


def of_rnn(profile):
    return {path.stem: load(path, profile) for path in sorted((SUITES / "rnn").glob("*.yaml"))}


def test_the_suites_of_the_rnn_notes_judge_every_statement_that_no_unit_test_proves():
    for profile in ("smoke", "small", "paper"):
        judged = {
            claim.id.partition("-")[0] for suite in of_rnn(profile).values() for claim in language(suite).claims
        }
        assert {"R2", "R4", "R5", "R6", "R7", "R8"} <= judged


def test_smoke_of_the_rnn_notes_needs_no_download(tmp_path):
    for suite in of_rnn("smoke").values():
        assert suite.tasks
        for config in suite.tasks.values():
            config.reads(tmp_path)  # a corpus that is not embedded raises, for this folder has none


def test_beams_are_tried_on_the_very_model_that_the_translation_suite_trains():
    for profile in ("smoke", "small", "paper"):
        suites = of_rnn(profile)
        one, other = suites["beams"], suites["translation"]
        assert one.models["attention"] == other.models["attention"]
        assert one.tasks == other.tasks
        assert (one.seeds, one.hardware) == (other.seeds, other.hardware)
