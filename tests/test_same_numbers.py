"""The comparison of two versions of the code finds changed numbers and texts, and nothing else."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import bench_small.plugin
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from same_numbers import differences

from bench_core import run
from bench_core.random_numbers import Rng
from bench_core.registry import extra
from bench_core.runs.reporting import reported


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """A function that runs the suite of toys on a fresh store, and returns a folder as the tool makes them."""
    suite = tmp_path_factory.mktemp("suite") / "suite.yaml"
    suite.write_text(SUITE)

    def compute():
        folder = tmp_path_factory.mktemp("computed")
        with extra(bench_small.plugin):
            found = run(suite, store=folder / "store", out=folder / "runs" / "toys")
        reported(found, folder / "reports" / "toys")
        return folder

    return compute


SUITE = """
suite: toys
tasks: {words: {name: letters}}
models: {one: {name: bigram}}
decoders: {drawn: {name: draw}}
metrics: {ended: {name: ended}, nats: {name: nats}}
training: {epochs: 2, lr: 0.1, batch_size: 4}
seeds: 2
limits: {max_tokens: 6}
hardware: {threads: 1, device: cpu}
tables: [{id: scores, rows: [model], values: [ended, nats]}]
"""


@pytest.fixture(scope="module")
def old(computed):
    return computed()


@pytest.fixture
def new(old, tmp_path):
    return Path(shutil.copytree(old, tmp_path / "new", ignore=shutil.ignore_patterns("store")))


def test_a_second_run_with_other_times_and_names_is_the_same(old, computed):
    assert [*differences(old, computed())] == []


def test_another_seed_is_named(old, computed, monkeypatch):
    monkeypatch.setattr(Rng, "fork", lambda self, name, fork=Rng.fork: fork(fork(self, "other"), name))
    found = "\n".join(differences(old, computed()))
    for file in ("history/", "cells.jsonl", "draws.safetensors", "results.json", "report.md"):
        assert file in found


@pytest.mark.parametrize("file", ["cells.jsonl", "results.json", "scores.csv"])
def test_a_number_that_is_rounded_is_named(old, new, file):
    (path,) = new.rglob(file)
    text = path.read_text()
    number = max(re.findall(r"\d+\.\d{9,}", text), key=len)
    path.write_text(text.replace(number, number[:-1], 1))
    (found,) = differences(old, new)
    assert file in found
    assert number[:8] in found


@pytest.mark.parametrize(("file", "line"), [("report.md", "- Mean"), ("scores.tex", "scores")])
def test_a_footnote_that_says_something_else_is_named(old, new, file, line):
    (path,) = new.rglob(file)
    text = path.read_text()
    assert line in text
    path.write_text(text.replace(line, f"{line} of all", 1))
    (found,) = differences(old, new)
    assert file in found


def test_files_of_one_of_the_two_are_named(old, new):
    (path,) = new.rglob("results.json")
    path.rename(path.with_name("others.json"))
    assert len([*differences(old, new)]) == 2
