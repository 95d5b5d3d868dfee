"""Keys change with what decides a result, and with nothing else."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest

from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import forget_code
from bench_core.planning.plan import plan
from bench_core.registry import extra
from bench_core.suites.load import load
from code_digests import CodeDigests


def test_every_changed_setting_changes_the_keys_that_depend_on_it(suite_file, tmp_path):
    def planned(**replaced):
        found = plan(load(suite_file(**replaced)), tmp_path)
        return {
            kind: {s.key for s in found.stages.values() if s.kind == kind}
            for kind in ("prepare", "train", "decode", "score", "measure")
        }

    first = planned()
    changes = {
        ("lr: 0.1", "lr: 0.2"): {"train", "decode", "score", "measure"},
        ("threads: 1", "threads: 2"): {"train", "decode", "score", "measure"},
        ("words: {name: letters}", "words: {name: letters, words: 9}"): {
            "prepare",
            "train",
            "decode",
            "score",
            "measure",
        },
        ("max_tokens: 6", "max_tokens: 7"): {"decode", "measure"},
        ("max_tokens: 6", "max_tokens: 6, scored: 3"): {"score", "measure"},
        ("title: Small", "title: Other"): set(),
        ("nats: {name: nats}", "nats: {name: nats, by: half}"): {"train", "decode", "score", "measure"},
    }
    for (old, new), expected in changes.items():
        second = planned(**{old: new})
        assert {kind for kind in first if first[kind] != second[kind]} == expected, (old, new)


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("task letters", {"prepare": 1, "train": 4, "decode": 8, "score": 4, "measure": 12}),
        ("model bigram", {"train": 4, "decode": 8, "score": 4, "measure": 12}),
        ("decoder draw", {"decode": 4, "measure": 4}),
        ("decoder argmax", {"train": 4, "decode": 8, "score": 4, "measure": 12}),  # which chooses weights
        ("metric ended", {"train": 4, "decode": 8, "score": 4, "measure": 12}),
        ("metric nats", {"measure": 4}),
        ("prepare", {"prepare": 1, "train": 4, "decode": 8, "score": 4, "measure": 12}),
        ("train", {"train": 4, "decode": 8, "score": 4, "measure": 12}),
        ("decode", {"decode": 8, "measure": 8}),
        ("score", {"score": 4, "measure": 4}),
        ("measure", {"measure": 12}),
    ],
)
def test_the_code_of_all_that_takes_part_is_in_the_keys_of_the_stages_that_use_it(
    suite_file, tmp_path, monkeypatch, part, changed
):
    suite, of_parts = load(suite_file(**{"{metric: nats}": "{metric: ended, decoder: argmax}"})), CodeDigests.of_parts
    before = plan(suite, tmp_path).stages

    def edited(digests, roots):
        return {**of_parts(digests, roots), **({part: "1f"} if part in roots else {})}

    monkeypatch.setattr(CodeDigests, "of_parts", edited)
    after = plan(suite, tmp_path).stages
    assert Counter(stage.kind for key, stage in after.items() if key not in before) == changed


INNER = """
from bench_core import Config

class InnerConfig(Config):
    name = "inner"
    libraries = {"packaging"}
    weight: float = 1.0

    def weighted(self, x):
        return self.weight * helper(x)

def helper(x):
    return x + 1
"""
OUTER = """
from importlib import import_module
from typing import Annotated
from pydantic import BeforeValidator, SerializeAsAny
from bench_core import Config, DecoderConfig, Settings, Stepper, hookimpl

def inner(settings):
    return settings if isinstance(settings, Config) else import_module("bench_" + "inner").InnerConfig(**settings)

Inner = Annotated[SerializeAsAny[Config], BeforeValidator(inner)]  # as plugins add to what others define

class Group(Settings):
    chain: list[Inner] = []

class OuterConfig(DecoderConfig):
    name, target, needs = "outer", "bench_small.parts:Argmax", Stepper
    group: Group = Group()
    named: dict[str, Inner] = {}

@hookimpl
def bench_decoders():
    return [OuterConfig]
"""


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("settings", "inside"),
    [("", False), (", group: {chain: [{weight: 2}]}", True), (", named: {one: {}}", True), (", group: {}", False)],
)
def test_the_code_of_configs_inside_settings_is_in_the_keys_of_the_stages_that_use_them(
    suite_file, tmp_path, monkeypatch, settings, inside
):
    """Though the distribution of the decoder does not require the one that they come from."""
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in (("inner", INNER), ("outer", OUTER)):
        (tmp_path / f"bench_{name}").mkdir()
        (tmp_path / f"bench_{name}" / "__init__.py").write_text(code)
    import bench_inner
    import bench_outer

    def planned():
        forget_code()
        path = suite_file(**{"argmax: {name: argmax}": f"argmax: {{name: outer{settings}}}"})
        return plan(load(path), tmp_path).stages

    with extra(bench_inner, bench_outer):
        before = planned()
        file = tmp_path / "bench_inner" / "__init__.py"
        file.write_text(INNER.replace("x + 1", "x + 2"))
        after = planned()
        file.write_text(INNER.replace("x + 1", "x + 1  # as said"))
        assert {*planned()} == {*before}
    changed = Counter(stage.kind for key, stage in after.items() if key not in before)
    assert changed == ({"decode": 4, "measure": 4} if inside else {})
    using = [stage for stage in before.values() if "packaging" in stage.ingredients["libraries"]]
    assert Counter(stage.kind for stage in using) == ({"decode": 4} if inside else {})
    for name in ("inner", "outer"):
        del sys.modules[f"bench_{name}"]
    forget_code()


def test_names_of_a_suite_do_not_enter_keys(suite_file, tmp_path):
    first = plan(load(suite_file()), tmp_path)
    second = plan(load(suite_file(**{"one: {": "uno: {"})), tmp_path)
    assert set(first.stages) == set(second.stages)


def test_stages_are_shared_and_inputs_come_first(suite_file, tmp_path):
    found = plan(load(suite_file()), tmp_path)
    counts = {"prepare": 1, "train": 4, "decode": 8, "score": 4, "measure": 12}
    assert Counter(stage.kind for stage in found.stages.values()) == counts
    seen = set()
    for stage in found.stages.values():
        assert {key for _, key in stage.inputs.values()} <= seen
        seen.add(stage.key)


def test_where_the_first_weights_lie_does_not_matter_and_what_they_are_does(suite_file, tmp_path):
    def key(name):
        text = f"training: {{initial: {tmp_path / name}, updates: 1, lr: 1e-9, select: {{metric: nats}}}}"
        old = "training: {epochs: 3, lr: 0.1, batch_size: 8, select: {metric: nats}}"
        stages = plan(load(suite_file(**{old: text})), tmp_path).stages.values()
        return {stage.key for stage in stages if stage.kind == "train"}

    for name, content in (("a", b"weights"), ("b", b"weights"), ("c", b"others")):
        (tmp_path / name).write_bytes(content)
    assert key("a") == key("b")
    assert not key("a") & key("c")


def test_the_key_of_a_stage_is_the_hash_of_its_ingredients_as_json(suite_file, tmp_path):
    for stage in plan(load(suite_file()), tmp_path).stages.values():
        assert keys.key_of(json.loads(json.dumps(stage.ingredients))) == stage.key


SAMPLED = """
from bench_core import hookimpl
from bench_small.plugin import BigramConfig

class SampledConfig(BigramConfig):
    name = "sampled"
    evaluation = {"draws"}
    draws: int = 5

@hookimpl
def bench_models():
    return [SampledConfig]
"""


@pytest.mark.parametrize(
    ("select", "changed"),
    [
        ("loss", {"decode": 4, "score": 2, "measure": 6}),
        ("nats", {"train": 2, "decode": 4, "score": 2, "measure": 6}),  # which chooses weights
    ],
)
def test_settings_of_evaluation_are_in_the_keys_of_trainings_only_where_these_evaluate(
    suite_file, tmp_path, monkeypatch, select, changed
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bench_sampled.py").write_text(SAMPLED)
    import bench_sampled

    def planned(draws):
        model = {
            "one: {name: bigram": f"one: {{name: sampled, draws: {draws}",
            "{metric: nats}": f"{{metric: {select}}}",
        }
        return plan(load(suite_file(**model)), tmp_path).stages

    with extra(bench_sampled):
        before, after = planned(5), planned(6)
    assert Counter(stage.kind for key, stage in after.items() if key not in before) == changed
    del sys.modules["bench_sampled"]
