"""Which folders of slow tests a change affects, by the requirements that distributions declare."""

from __future__ import annotations

import subprocess

import affected
import pytest
from projects import projects

ALL = affected.folders(None)


def test_every_folder_of_tests_is_known():
    paths = [affected.ROOT / "tests", *affected.ROOT.glob("plugins/*/tests")]
    assert {path.relative_to(affected.ROOT).as_posix() for path in paths} == {*ALL}


@pytest.mark.parametrize(
    "name",
    ["bench_core/config.py", "pyproject.toml", "conftest.py", "constraints.txt", "tests/small/bench_small/runs.py"],
)
def test_what_all_distributions_use_affects_all(name):
    assert affected.folders(["README.md", name]) == ALL


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


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return a function that runs git in a new repository with a main branch of two commits."""
    monkeypatch.setattr(affected, "ROOT", tmp_path)

    def git(*words):
        names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True)

    def commit(name):
        (tmp_path / name).write_text("text")
        git("add", name)
        git("commit", "--quiet", "--message", name)

    git("init", "--quiet", "--initial-branch", "main")
    commit("first")
    assert affected.changed_files() is None, "there is no commit before the last landing"
    commit("second")
    git.commit = commit
    return git


def test_on_the_main_branch_the_last_landing_counts_as_changed(repository, tmp_path):
    repository.commit("third")
    (tmp_path / "new").write_text("not yet known to git")
    (tmp_path / "first").write_text("edited")
    assert {*affected.changed_files()} == {"third", "new", "first"}


def test_on_a_branch_all_of_it_counts_with_the_landing_before(repository):
    repository("checkout", "--quiet", "-b", "branch")
    repository.commit("third")
    repository.commit("fourth")
    assert {*affected.changed_files()} == {"second", "third", "fourth"}
    assert affected.changed_files("HEAD^") == ["fourth"]


def test_without_the_commit_nothing_is_known(repository):
    assert affected.changed_files("0" * 40) is None
