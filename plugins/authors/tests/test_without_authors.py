"""Without bench-authors, the core reports what is missing: commands, contracts, checks and the old `testing`."""

from __future__ import annotations

from textwrap import dedent

import pytest
from bench_small.suites import SUITE
from click.testing import CliRunner

import bench_authors.testing
import bench_core
from bench_core import PluginError, optional
from bench_core.commands.main import bench, further
from bench_core.planning.plan import plan
from bench_core.runs import runner
from bench_core.runs.contract_marks import contract_mark
from bench_core.runs.reporting import reported, unchecked_models
from bench_core.storage.store import Store
from bench_core.suites.load import load

SOURCE = "bench-authors (in a checkout: pip install ./plugins/authors)"


@pytest.fixture
def absent(monkeypatch):
    """Hide bench-authors from the core."""
    find_spec = optional.find_spec
    monkeypatch.setattr(optional, "find_spec", lambda name: None if name == "bench_authors" else find_spec(name))


def test_a_missing_command_names_its_distribution(monkeypatch):
    monkeypatch.setattr("bench_core.commands.main.further", dict)
    for name in ("describe", "new", "schema"):
        done = CliRunner().invoke(bench, [name])
        assert done.exit_code == 2
        assert f"no command '{name}'. It comes with {SOURCE}." in done.output


def test_this_distribution_has_three_commands():
    owners = {name: entry.module for name, entry in further().items() if entry.module.startswith("bench_authors.")}
    assert {*owners} == {"describe", "new", "schema"}


def test_checking_contracts_is_an_error_that_names_the_distribution(absent, small, tmp_path):
    (tmp_path / "suite.yaml").write_text(dedent(SUITE))
    done = CliRunner().invoke(bench, ["check", "--contracts", str(tmp_path / "suite.yaml")])
    assert isinstance(done.exception, PluginError)
    assert str(done.exception) == f"bench check --contracts comes with {SOURCE}, which is not installed."
    assert CliRunner().invoke(bench, ["check", str(tmp_path / "suite.yaml")]).exit_code == 0


@pytest.fixture
def trained(small, tmp_path, monkeypatch):
    """Return a function that runs the small suite as if stages had separate processes."""
    (tmp_path / "suite.yaml").write_text(dedent(SUITE))
    monkeypatch.setattr(runner.Runner, "with_contracts", True)

    def run():
        return bench_core.run(tmp_path / "suite.yaml", store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)

    return run


def test_a_run_continues_and_its_report_lists_the_unchecked_models(absent, trained, tmp_path):
    run = trained()
    assert {cell.status for cell in run.cells} == {"done"}
    names = [name for name, about in run.info["models"].items() if about.get("unchecked")]
    assert names
    sentence = f"{', '.join(names)}, since bench-authors was not installed"
    assert unchecked_models(run) == sentence
    pytest.importorskip("bench_reports")
    reported(run, tmp_path / "report")
    assert f"Contracts not checked: {sentence}" in (tmp_path / "report" / "report.md").read_text()


def test_the_environment_records_missing_second_looks(absent, trained, monkeypatch):
    def looked(*given):
        raise AssertionError("nobody looks")

    monkeypatch.setattr("bench_authors.looks.models.SecondLook.at_outputs", looked)
    monkeypatch.setattr("bench_authors.looks.metrics.MetricLook.at_predictions", looked)
    monkeypatch.setattr("bench_authors.looks.tasks.TaskLook.at_examples", looked)
    (environment,) = trained().info["environments"]
    assert environment["second looks"] == "none, since bench-authors was not installed"


@pytest.mark.slow
def test_the_environment_does_not_mention_second_looks_otherwise(trained):
    assert all("second looks" not in environment for environment in trained().info["environments"])


def test_bench_check_lists_the_skipped_checks(absent, small, tmp_path):
    (tmp_path / "suite.yaml").write_text(dedent(SUITE))
    done = CliRunner().invoke(bench, ["check", str(tmp_path / "suite.yaml")])
    assert f"not checked: part classes, files, servers and devices: these checks come with {SOURCE}." in done.output


def test_a_second_run_has_the_same_results(absent, trained):
    assert trained().folder == trained().folder


def test_unchecked_models_stay_unchecked_after_installation(trained, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(runner, "is_installed", lambda name: False)
        first = trained()
    assert unchecked_models(first)
    assert trained().folder == first.folder


def test_a_model_checked_before_is_not_listed(absent, trained, tmp_path):
    store = Store(tmp_path / "store")
    stages = plan(load(tmp_path / "suite.yaml"), tmp_path).stages.values()
    for mark in filter(None, (contract_mark(stage, store) for stage in stages)):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    assert unchecked_models(trained()) == ""


def test_verification_accepts_unchecked_models(absent, trained, tmp_path):
    stored = pytest.importorskip("bench_exchange.compared_with_store")
    run = trained()
    assert unchecked_models(run)
    assert [remark.text for remark in stored.unlike_store(run, Store(tmp_path / "store")) if remark.wrong] == []


def test_with_it_contracts_are_tested_and_reports_do_not_mention_them(trained, monkeypatch):
    asked = []
    monkeypatch.setattr("bench_authors.contracts_once.broken_contracts", lambda due, *more: asked.extend(due) or {})
    run = trained()
    assert asked
    assert unchecked_models(run) == ""
    assert not any("unchecked" in about for about in run.info["models"].values())


def test_the_old_name_of_the_contracts_works_with_a_warning():
    import bench_core.testing

    with pytest.warns(DeprecationWarning, match=r"bench_core\.testing\.Case is now bench_authors\.testing\.Case"):
        from bench_core.testing import Case
    assert Case is bench_authors.testing.Case
    for name in bench_authors.testing.__all__:
        with pytest.warns(DeprecationWarning, match=f"testing.{name} is now"):
            assert getattr(bench_core.testing, name) is getattr(bench_authors.testing, name)
    with pytest.raises(AttributeError):
        _ = bench_core.testing.__path__


def test_the_old_name_without_it_names_the_distribution(absent):
    with pytest.raises(PluginError, match=r"bench_core\.testing\.Case comes with bench-authors .*plugins/authors"):
        from bench_core.testing import Case  # noqa: F401


def test_the_summary_without_a_report_lists_unchecked_models(absent, trained, tmp_path, monkeypatch):
    run = trained()
    monkeypatch.setattr("bench_core.runs.reporting.installed_module", lambda *given: None)
    text, report = reported(run, tmp_path / "report")
    assert text.endswith(f"Contracts not checked: {unchecked_models(run)}.")
    assert report.startswith("not written: install bench-reports (in a checkout: pip install ./plugins/reports)")


def test_a_module_of_another_release_is_refused(monkeypatch):
    optional._check_release.cache_clear()
    known = optional.version
    monkeypatch.setattr(optional, "version", lambda name: "0.1.0" if name == "bench-reports" else known(name))
    with pytest.raises(
        PluginError, match=r"bench-reports 0\.1\.0 is incompatible with bench-core .*same release of both"
    ):
        optional.installed_module("bench-reports", "for_core")
    with pytest.raises(PluginError, match="is incompatible with"):
        optional.optional_module("bench-reports", "for_core", "bench report")
