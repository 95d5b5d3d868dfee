"""Damage done on purpose: whether it is caught, and whether the drills see it if it is not."""

from __future__ import annotations

import sys
import tempfile

import pytest
from bench_small import drill, scratch
from bench_small.drill import DRILLS, held
from bench_small.scratch import Scratch


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a scratch folder in which the suite has been run once, undisturbed."""
    found = Scratch(tmp_path_factory.mktemp("drill"))
    assert found.undisturbed.report
    return found


@pytest.fixture
def without(place):
    """Return a function that holds a drill while some lines of code take a guard away, wherever stages are performed."""
    file = place.packages / "sitecustomize.py"  # which Python imports when it starts; what a plugin does is in keys

    def hold(what, code):
        file.write_text(code)
        return held(what, DRILLS[what], place)

    yield hold
    file.unlink(missing_ok=True)


@pytest.mark.nightly
def test_a_flipped_byte_is_missed_if_digests_are_not_compared(without):
    found = without(
        "flipped byte", "from bench_core.storage.artifact import Artifact\nArtifact._compare = lambda *given: None\n"
    )
    assert (found.state, "it was not said: " in found.found) == ("missed", True)


def parsed(expression):
    """Return code by which keys see another source of modules."""
    return (
        "from code_digests import SourceModule\n"
        "parse = SourceModule.parse.__func__\n"
        f"SourceModule.parse = classmethod(lambda cls, name, path, source, silent: parse(cls, name, path, {expression}, silent))\n"
    )


@pytest.mark.nightly
def test_an_edited_helper_is_missed_if_its_code_does_not_enter_keys(without):
    found = without("edited helper", parsed("source.replace('return 0.5  # as', 'return 1.0  # as')"))
    assert (found.state, found.found) == ("missed", "a changed line would have 0 stages made again, not 7")


@pytest.mark.nightly
def test_an_edited_comment_is_missed_if_it_enters_keys(without):
    found = without("edited helper", parsed("source.replace('return 1.0  # as it was', 'return 2.0')"))
    assert (found.state, found.found) == ("missed", "a changed comment would have 7 stages made again, not 0")


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        pytest.param(
            "flipped byte",  # told, but not made again
            "from bench_core.runs.stage_loop import StageLoop\nStageLoop._retried = lambda self, stage, failure: failure\n",
            "a command ended with 1, not 0",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "killed worker",
            "from bench_training.checkpoint import Checkpoints\nCheckpoints.due = lambda self: False\n"
            "from bench_core.runs.stage_loop import StageLoop\nStageLoop.fail = lambda self, stage, failure: None\n",
            "a command ended with 0, not 1",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "full disk",
            "from bench_core.storage import store\nstore.shutil.rmtree = lambda *given, **more: None\n",
            "something half-written was left behind",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "two runs at once",
            "from contextlib import nullcontext\nfrom bench_core.storage.store import Store\n"
            "Store.lock = lambda *given: nullcontext()\n",
            "a training was done 2 times",
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["unrepaired", "killed", "full", "unlocked"],
)
def test_what_is_not_caught_is_said(without, what, code, said):
    found = without(what, code)
    assert found.state == "missed"
    assert said in found.found


def test_what_cannot_be_tried_is_skipped(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    found = held("full disk", DRILLS["full disk"], None)
    assert (found.state, found.found) == ("skipped", "this system has no limit of the size of files")


def test_where_the_suite_does_not_even_run_that_is_all_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "SUITE", scratch.SUITE.replace("drill-greedy", "drill-greed"))
    (only,) = drill.drills()
    assert (only.what, only.state) == ("undisturbed run", "missed")
    assert only.found.startswith("a command ended with 2, not 0: ")
    assert "Did you mean 'drill-greedy'" in only.found
    assert not list(tmp_path.iterdir()), "the folder is removed"


@pytest.mark.parametrize(
    ("reason", "state", "said"), [(drill.Skipped, "skipped", "so"), (KeyError, "missed", "KeyE")]
)
def test_what_a_drill_raises_is_told(monkeypatch, reason, state, said):
    def broken(place):
        raise reason("so")

    monkeypatch.setattr(drill, "undisturbed", lambda place: "all cells are done")
    monkeypatch.setattr(drill, "DRILLS", {"odd": broken})
    first, odd = drill.drills()
    assert (first.state, odd.what, odd.state) == ("caught", "odd", state)
    assert odd.found.startswith(said)


@pytest.mark.nightly
def test_a_flipped_byte_is_caught(place):
    assert held("flipped byte", DRILLS["flipped byte"], place).state == "caught"


@pytest.mark.nightly
def test_all_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = [*drill.drills()]
    assert [one.found for one in found if one.state == "missed"] == []
    assert [one.what for one in found] == ["undisturbed run", *DRILLS]
    assert not list(tmp_path.iterdir()), "nothing is left in the user's folder, nor in that of temporary files"
