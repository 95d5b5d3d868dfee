"""What sets the project up and what prepares a release: the files that they read, and what they refuse."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import fresh
import install
import projects
import release_check


def test_the_tests_that_a_fresh_machine_runs_are_there():
    assert [path for path in fresh.TESTS if not (ROOT / path).is_file()] == []


def test_a_release_could_be_made_of_the_files_as_they_are():
    assert list(release_check.problems()) == []


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Let the tools read a copy of all that they read."""
    for path in [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]:
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    for name in (
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "SECURITY.md",
        "Dockerfile",
        ".github/workflows/test.yml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for module in (projects, release_check):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("plugins/rnn/pyproject.toml", 'version = "', 'version = "9', "bench-rnn has version 9"),
        ("plugins/ecoc/pyproject.toml", "bench-rnn==", "bench-rnn>=", "bench-ecoc requires 'bench-rnn>="),
        ("plugins/all/pyproject.toml", "bench-strlm==", "bench-strlm==1", "bench-all requires 'bench-strlm==1"),
        ("CHANGELOG.md", "## ", "## 7", "CHANGELOG.md has no section"),
        ("CITATION.cff", "version: ", "version: 7", "CITATION.cff does not contain"),
        ("LICENSE", None, None, "LICENSE is missing"),
    ],
)
def test_what_would_spoil_a_release_is_named(copied, name, old, new, told):
    path = copied / name
    if old is None:
        path.unlink()
    else:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    assert told in "\n".join(release_check.problems())


def test_third_parties_are_found_through_our_own_distributions_and_their_extras():
    found = projects.third_parties(["bench-all[strlm]==0.2.0"])
    assert {"torch>=2.11", "matplotlib>=3.10", "spacy>=3.7", "transformers>=5.23,<6"} <= set(found)
    assert not [one for one in found if one.startswith("bench-")]
    assert "matplotlib>=3.10" not in projects.third_parties(["bench-rnn"])


def test_the_default_set_up_has_every_package_that_the_project_names_and_none_from_source():
    ours = [one for one in projects.projects().values() if one.name not in install.CI_ONLY]
    names = {projects.split(one)[0] for one in projects.third_parties(map(install.with_extras, ours))}
    given = {"torch", "pluggy", "pydantic", "tokenizers", "spacy", "sacrebleu", "pycocoevalcap", "tabulate", "pytest"}
    assert given <= names
    assert not {"ray", "submitit", "mecab-python3", "ipadic"} & names
    assert not [one for one in projects.third_parties(map(install.with_extras, ours)) if one.startswith("sacrebleu[")]


def test_the_set_up_refuses_an_old_python_in_one_line(tmp_path):
    code = (ROOT / "tools" / "install.py").read_text().replace("OLDEST = (3, 11)", "OLDEST = (9, 0)")
    (tmp_path / "install.py").write_text(code)
    done = subprocess.run([sys.executable, tmp_path / "install.py"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("bench needs CPython 9.0 or newer")
    assert done.stderr.count("\n") == 1


def test_an_environment_of_another_place_is_not_taken_for_one_that_works(tmp_path, monkeypatch):
    assert install.works()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(install, "VENV", tmp_path)
    monkeypatch.setattr(install, "PYTHON", tmp_path / "bin" / "python")
    assert not install.works()


def test_the_set_up_is_done_again_when_what_it_depends_on_changes(copied, monkeypatch):
    monkeypatch.setattr(install, "ROOT", copied)
    shutil.copy(ROOT / "constraints.txt", copied)
    before = install.stamp(ci=False)
    assert install.stamp(ci=False) == before
    assert install.stamp(ci=True) != before
    (copied / "constraints.txt").write_text("torch==1.0\n")
    assert install.stamp(ci=False) != before


def targets():
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def test_continuous_integration_and_the_container_call_what_there_is():
    workflow = YAML(typ="safe").load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"] == {
        "os": ["ubuntu-latest", "macos-latest"], "python": ["3.11", "3.12", "3.13"]
    }  # fmt: skip
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    text = "\n".join([*steps, (ROOT / "Dockerfile").read_text(), (ROOT / ".ci" / "run").read_text()])
    assert {
        "setup",
        "setup-ci",
        "demo",
        "test",
        "test-extras",
        "test-slow",
        "nightly",
        "lint",
        "fresh",
        "release-check",
    } == set(re.findall(r"\bmake ([a-z-]+)(?= |$)", text, re.M)) & targets()
    assert not set(re.findall(r"\bmake ([a-z-]+)(?= |$)", text, re.M)) - targets() - {"make"}
    for path in re.findall(r"suites/[\w/-]+\.yaml", text):
        assert (ROOT / path).is_file(), path


def test_the_demo_writes_its_report_to_a_folder_that_git_ignores():
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo: setup\n")[2].partition("\n\n")[0]
    (out,) = re.findall(r"--out (\S+)", recipe)
    assert f"/{out}/" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize("base", ["python:3.12-slim", "nvidia/cuda:13.0.1-runtime-ubuntu24.04"])
def test_the_dockerfile_takes_its_base_as_an_argument_and_runs_as_nobody_special(base):
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert lines.index("ARG BASE=python:3.12-slim") < lines.index("FROM ${BASE}")
    assert any(base in line for line in lines)
    assert "USER bench" in lines


def test_the_proof_of_a_fresh_machine_looks_for_texts_that_are_printed():
    root = Path(__file__).parents[1]
    texts = {
        fresh.CAPTION: "suites/quickstart.yaml",
        "nothing computed": "bench_core/commands/run.py",
        "not written: ": "bench_core/runs/reporting.py",
    }
    for text, source in texts.items():
        assert text in (root / source).read_text(), source
