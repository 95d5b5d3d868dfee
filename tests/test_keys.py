"""Keys change with what decides a result, and with nothing else."""

from __future__ import annotations

import sys
from collections import Counter
from importlib.metadata import requires

import pytest

from bench_core.planning import cache_keys as keys
from bench_core.planning.plan import plan
from bench_core.registry import extra
from bench_core.suites.load import load

CODE = '''
"""A module."""
def f(x: int) -> int:
    """Add one."""
    return x + 1  # as said
'''


def test_comments_docstrings_and_formatting_do_not_count():
    other = '"""Another."""\n\ndef f(x: int) -> int:\n\n    return (x +\n        1)\n'
    assert keys.parsed(CODE) == keys.parsed(other)


@pytest.mark.parametrize("change", [("x + 1", "x + 2"), ("int:", "float:"), ("def f", "def g"), ("return", "yield")])
def test_code_counts(change):
    assert keys.parsed(CODE) != keys.parsed(CODE.replace(*change))


def test_a_string_that_is_no_docstring_counts():
    assert keys.parsed("x = 'a'") != keys.parsed("x = 'b'")


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
        (("task", "letters"), {"prepare": 1, "train": 4, "decode": 8, "score": 4, "measure": 12}),
        (("model", "bigram"), {"train": 4, "decode": 8, "score": 4, "measure": 12}),
        (("decoder", "draw"), {"decode": 4, "measure": 4}),
        (("decoder", "argmax"), {"train": 4, "decode": 8, "score": 4, "measure": 12}),  # which chooses weights
        (("metric", "ended"), {"train": 4, "decode": 8, "score": 4, "measure": 12}),
        (("metric", "nats"), {"measure": 4}),
    ],
)
def test_the_code_of_a_part_is_in_the_keys_of_the_stages_that_use_it(
    suite_file, tmp_path, monkeypatch, part, changed
):
    suite, code = load(suite_file(**{"{metric: nats}": "{metric: ended, decoder: argmax}"})), Planner._code
    before = plan(suite, tmp_path).stages

    def edited(planner, *named):
        return {**code(planner, *named), **({"edited": "1f"} if named == part else {})}

    monkeypatch.setattr(Planner, "_code", edited)
    after = plan(suite, tmp_path).stages
    assert Counter(stage.kind for key, stage in after.items() if key not in before) == changed


INNER = """
from bench_core import Config

class InnerConfig(Config):
    name = "inner"
    libraries = {"packaging"}
    weight: float = 1.0

def helper(x):
    return x + 1
"""
OUTER = """
from bench_core import DecoderConfig, Settings, Stepper, hookimpl
from bench_inner import InnerConfig

class Group(Settings):
    chain: list[InnerConfig] = []

class OuterConfig(DecoderConfig):
    name, target, needs = "outer", "bench_small.parts:Argmax", Stepper
    group: Group = Group()
    named: dict[str, InnerConfig] = {}

@hookimpl
def bench_decoders():
    return [OuterConfig]
"""


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
        keys.package_code.cache_clear()
        keys.distribution_code.cache_clear()
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
    keys.package_code.cache_clear()
    keys.distribution_code.cache_clear()


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


def test_what_only_an_extra_brings_is_in_no_key():
    """Else a changed report would have every model trained anew."""
    assert any(line.startswith("bench-reports") and "extra ==" in line for line in requires("bench-indigo"))
    assert {"bench-indigo", "bench-text"} == {*keys.distribution_code("bench-indigo", "bench_indigo")}
