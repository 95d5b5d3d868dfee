"""`bench run --until decided`: seeds are added until claims are decided, each look at a part of the level."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_small.suites import SUITE
from click.testing import CliRunner

from bench_core import optional
from bench_core.commands.main import bench
from bench_core.errors import SuiteError
from bench_core.runs.results import read_run
from bench_reports.content.claims import judge

DECIDED = "claims:\n  - {id: C, text: c, assert: \"v('nats', model='one', decoder='argmax') < 50\"}\n"
OPEN = DECIDED.replace("}", ", requires: {far: \"v('nats', model='one', decoder='argmax') > 40\"}}")


@pytest.fixture
def go(suite_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(claims, *words):
        suite_file(SUITE + claims)
        words = ("run", "suite.yaml", "--profile", "tiny", "--workers", "0", "--until", "decided", *words)
        found = CliRunner().invoke(bench, words, standalone_mode=False)
        if found.exception is not None:
            raise found.exception
        return [read_run(folder) for folder in sorted(Path("runs").iterdir(), key=lambda one: one.stat().st_mtime)]

    return run


@pytest.mark.slow
def test_no_seed_is_added_once_claims_are_decided_and_the_report_says_at_which_level(go):
    (run,) = go(DECIDED, "--seeds", "5")
    assert {cell.cell["seed"] for cell in run.cells} == {0, 1, 2}
    assert run.info["asked"] == ["until=decided, look 1 of 3"]
    (judged,) = judge(run)
    assert judged.verdict == "holds"
    (report,) = Path("reports").rglob("report.md")
    assert "tested at the 0.83 % level, as seeds were added until the claims were decided" in report.read_text()


@pytest.mark.slow
def test_seeds_are_added_one_by_one_while_a_claim_is_open_up_to_the_most(go):
    runs = go(OPEN, "--seeds", "4")
    assert [len({cell.cell["seed"] for cell in run.cells}) for run in runs] == [3, 4]
    assert [run.info["asked"][-1] for run in runs] == [f"until=decided, look {look} of 2" for look in (1, 2)]
    assert judge(runs[-1])[0].verdict == "not tested"


@pytest.mark.slow
def test_primary_claims_alone_are_waited_for(go):
    primary = DECIDED.replace("}", ", primary: true}") + OPEN.replace("claims:\n", "").replace("id: C", "id: D")
    (run,) = go(primary, "--seeds", "4")
    assert [one.verdict for one in judge(run)] == ["holds", "not tested"]


@pytest.mark.parametrize(
    ("claims", "seeds", "problem"),
    [(DECIDED, "2", "has only 2 seeds: set the maximum with --seeds"), ("", "4", "has no claims")],
)
def test_what_cannot_be_decided_is_refused_before_anything_runs(go, claims, seeds, problem):
    with pytest.raises(SuiteError, match=problem):
        go(claims, "--seeds", seeds)
    assert not Path("runs").exists()


def test_without_statistics_nothing_runs(go, monkeypatch):
    known = optional.find_spec
    monkeypatch.setattr(optional, "find_spec", lambda name: None if name == "bench_reports" else known(name))
    with pytest.raises(SuiteError, match="needs statistics: install bench-reports"):
        go(DECIDED, "--seeds", "4")
    assert not Path("runs").exists()
