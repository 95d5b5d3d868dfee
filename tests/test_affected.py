"""Which folders of slow tests a change affects, by the requirements that distributions declare."""

from __future__ import annotations

import os
import subprocess

import affected
import pytest
from projects import projects

ALL = affected.folders(None)


def test_every_folder_of_tests_is_known():
    paths = [affected.ROOT / "tests", *affected.ROOT.glob("plugins/*/tests")]
    assert {path.relative_to(affected.ROOT).as_posix() for path in paths} == {*ALL}


#: Tests of what the core requires.
LIBRARIES = tuple(
    f"plugins/{name}/tests"
    for name in (
        "block-bootstrap",
        "code-digests",
        "input-digests",
        "placed-settings",
        "plain-files",
        "process-watch",
    )
)


@pytest.mark.parametrize("name", ["conftest.py", "constraints.txt", "tests/small/bench_small/runs.py"])
def test_what_all_distributions_use_affects_all(name):
    assert affected.folders(["README.md", name]) == ALL


@pytest.mark.parametrize("name", ["bench_core/config.py", "pyproject.toml"])
def test_the_core_affects_all_but_the_libraries_that_it_requires(name):
    assert affected.folders([name]) == [one for one in ALL if one not in LIBRARIES]


@pytest.mark.parametrize("name", ["code-digests/code_digests/new.py", "process-watch/process_watch/new.py"])
def test_a_library_of_the_core_affects_all_but_the_others(name):
    others = {one for one in LIBRARIES if name.partition("/")[0] not in one}
    assert affected.folders([f"plugins/{name}"]) == [one for one in ALL if one not in others]


@pytest.mark.parametrize("name", ["README.md", "suites/quickstart.yaml", "tests/test_cli.py", "plugins/README.md"])
def test_what_no_distribution_holds_affects_the_tests_of_all_together_alone(name):
    assert affected.folders([name]) == ["tests"]


@pytest.mark.parametrize("name", ["bench_rnn/plugin.py", "pyproject.toml", "a new file"])
def test_a_plugin_affects_those_that_require_it(name):
    found = affected.folders([f"plugins/rnn/{name}"])
    requiring = {
        project.folder.name
        for project in projects().values()
        if any(one.startswith("bench-rnn=") for one in project.requires(project.extras))
    }
    assert {"plugins/rnn/tests", "plugins/ecoc/tests"} < {*found} < {*ALL}
    assert {f"plugins/{name}/tests" for name in requiring - {"all"}} < {*found}


def test_requirements_of_requirements_and_of_extras_count():
    assert "plugins/captioning/tests" in affected.folders(["plugins/metrics/bench_metrics/meteor.py"])  # an extra
    assert {"bench-text", "bench-decoders"} <= affected._required("bench-all", projects())  # by those that it names


def test_tests_of_a_plugin_affect_no_other():
    assert affected.folders(["plugins/text/tests/test_corpora.py"]) == ["tests", "plugins/text/tests"]


HOUR = 3600


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return a function that runs git in a new repository, whose main branch has a landing on each of two days."""
    monkeypatch.setattr(affected, "ROOT", tmp_path)

    def git(*words, hours=0):
        names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        when = {"GIT_COMMITTER_DATE": f"{1_700_000_000 + round(hours * HOUR)} +0000"}
        command = ["git", *names, *words]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env={**os.environ, **when})

    def commit(name, hours):
        (tmp_path / name).write_text("text")
        git("add", name)
        git("commit", "--quiet", "--message", name, hours=hours)

    git("init", "--quiet", "--initial-branch", "main")
    commit("first", 0)
    assert affected.changed_files() is None, "there is no commit before the last landing"
    commit("second", 24)
    commit("third", 26)
    git.commit = commit
    return git


def test_on_the_main_branch_all_commits_of_the_last_landing_count_as_changed(repository, tmp_path):
    (tmp_path / "new").write_text("not yet known to git")
    (tmp_path / "first").write_text("edited")
    assert {*affected.changed_files()} == {"second", "third", "new", "first"}
    repository.commit("fourth", 48)
    assert {*affected.changed_files()} == {"fourth", "new", "first"}


def test_on_a_branch_all_of_it_counts_with_the_landing_before(repository):
    repository("checkout", "--quiet", "-b", "branch")
    repository.commit("fourth", 48)
    repository.commit("fifth", 72)
    assert {*affected.changed_files()} == {"second", "third", "fourth", "fifth"}
    assert affected.changed_files("HEAD^") == ["fifth"]


def test_without_the_commit_nothing_is_known(repository):
    assert affected.changed_files("0" * 40) is None
