"""What runs record of their stages: the file of stages gives back what was written, and refuses what would explode."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench_core.errors import StoreError
from bench_core.planning.cache_keys import SCHEME, key_of
from bench_core.runs.manifest import commit, read_manifest, write_manifest
from bench_core.runs.provenance import STAGES, RecordedStage, read_stages, settings_by_part, write_stages

CELL = {"task": "t", "model": "m", "decoder": "d", "split": "test", "hardware": "default", "seed": 3}


def stage(**settings):
    ingredients = {"kind": "decode", "settings": settings, "inputs": {"task": ("prepare", "a" * 64)}, "code": {}}
    return RecordedStage(key_of(ingredients), ingredients, SCHEME, "r")


def written(tmp_path, *lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / STAGES).write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.mark.parametrize(
    "value",
    [
        {"$": 1},
        {"$": {"$": 0}},
        {"a": {"$": "x" * 99}},
        ["x" * 99] * 3,
        {"ü" * 70: None},
        {"n": [{}, [], {"$": []}]},
        1e-9,
    ],
)
def test_stages_are_read_as_they_were_written_whatever_settings_hold(tmp_path, value):
    stages = [stage(value=value, number=number) for number in range(3)]
    write_stages(tmp_path / STAGES, stages)
    found = read_stages(tmp_path)
    assert [one.key for one in found.values()] == [one.key for one in stages]
    assert [key_of({**one.ingredients, "scheme": one.scheme}) for one in found.values()] == [*found]
    assert [one.settings["value"] for one in found.values()] == [value] * 3


def test_what_stages_share_is_written_once(tmp_path):
    shared = {f"setting-{number}": number for number in range(200)}
    write_stages(tmp_path / STAGES, [stage(shared=dict(shared), number=number) for number in range(500)])
    text = gzip.decompress((tmp_path / STAGES).read_bytes())
    assert text.count(b"setting-199") == 1
    assert {len(one.settings["shared"]) for one in read_stages(tmp_path).values()} == {200}


def test_a_file_in_which_few_lines_stand_for_very_much_is_refused(tmp_path):
    doubling = [{"value": ["x" * 99]}, *({"value": [{"$": number}, {"$": number}]} for number in range(60))]
    with pytest.raises(StoreError, match="a line is too large with its references"):
        read_stages(written(tmp_path, *doubling, {"key": "k", "scheme": 1, "ingredients": {"$": 60}}))


@pytest.mark.parametrize("place", [0, -1, 7, 10**9])
def test_references_to_lines_that_do_not_come_before_are_refused(tmp_path, place):
    with pytest.raises(StoreError, match="recorded stages cannot be read"):
        read_stages(written(tmp_path, {"value": {"$": place}}))


def test_every_setting_of_a_stage_belongs_to_a_part_or_to_the_cell():
    settings = {"decoder": {"name": "g"}, "seed": 3, "split": "test", "examples": 9, "device": "cpu", "novel": 1}
    assert dict(settings_by_part(CELL, "decode", settings)) == {
        ("decoders", "d", "decoder"): {"name": "g"}, ("cell", "seed"): 3, ("cell", "split"): "test",
        ("limits", "examples"): 9, ("hardware", "default", "device"): "cpu", ("models", "m", "t", "novel"): 1,
    }  # fmt: skip
    assert dict(settings_by_part(CELL, "score/nats", {"by": "exact"})) == {("models", "m", "t", "by/nats"): "exact"}


def test_a_manifest_names_the_commit_of_the_core_and_none_if_that_is_not_in_a_repository(tmp_path):
    (tmp_path / "a").write_text("x")
    assert write_manifest(tmp_path, "run", "r").commit == commit()
    assert read_manifest(tmp_path).files.keys() == {"a"}
    package = tmp_path / "elsewhere" / "bench_core"
    package.mkdir(parents=True)
    source = Path(commit.__wrapped__.__code__.co_filename).parent.parent
    code = f"import sys; sys.path.insert(0, {str(source.parent)!r})\nimport bench_core.runs.manifest as m\n"
    code += f"m.__file__ = {str(package / 'runs' / 'manifest.py')!r}\nprint(m.commit())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


TWO = """
suite: two
tasks: {sentences: {name: sequence-completion, corpus: {name: english, sentences: 120}, prefix: 2}}
models: {lstm: {name: rnn-lm, hidden: 8}}
decoders: {first: {name: greedy}, second: {name: ancestral}}
metrics: {nats: {name: perplexity}, ended: {name: non-termination}}
training: {updates: 2, batch_size: 4}
limits: {examples: 4, max_tokens: 6}
tables: [{id: t, rows: decoder, columns: model, values: [ended]}]
hardware: {threads: 1, device: cpu}
"""


@pytest.mark.nightly
def test_a_table_of_numbers_by_two_kinds_of_arithmetic_says_so(tmp_path):
    (tmp_path / "suite.yaml").write_text(TWO)

    def report(*words, **variables):
        done = subprocess.run(
            [sys.executable, "-m", "bench_core", "run", "suite.yaml", "--json", *words],
            cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, **variables},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return (tmp_path / json.loads(done.stdout)["report"]).read_text()

    first = report("--only", "decoder=first", ATEN_CPU_CAPABILITY="default")
    both = report()
    assert "Computed in different environments" not in first
    (line,) = [line.replace("\\", "") for line in both.splitlines() if "Computed in different environments" in line]
    assert "$ATEN_CPU_CAPABILITY" in line
    assert ("CPU capability" in line) == (torch.backends.cpu.get_cpu_capability() != "DEFAULT")
    assert re.search(r"default.*; .*not set.*second", line)
