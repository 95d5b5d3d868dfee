"""Plugins are found, and a bad one is told by name while the others work."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from bench_core import PluginError, SuiteError, entry_points
from bench_core.registry import extra, installed, part, parts, suggestion
from bench_core.testing import toys

DECODER = """
from bench_core import DecoderConfig, Stepper, hookimpl

supports = (2, 2)

class Config(DecoderConfig):
    name, target, needs = {name!r}, "nowhere:Nothing", Stepper

@hookimpl
def bench_decoders():
    return [Config]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that puts a distribution with one plugin on the path."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(distribution, code):
        module = distribution.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{module}-2.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.5\n")
        (info / "entry_points.txt").write_text(f"[bench]\n{distribution} = {module}\n")
        modules.append(module)
        _forget()

    modules = []
    yield write
    for module in modules:
        sys.modules.pop(module, None)
    monkeypatch.undo()
    _forget()


def _forget():
    entry_points._all.cache_clear()
    installed.cache_clear()
    parts.cache_clear()


def test_a_plugin_is_found_with_its_origin(install):
    install("tree-search", DECODER.format(name="tree"))
    found = part("decoder", "tree")
    assert (found.kind, found.distribution, found.version) == ("decoder", "tree-search", "2.5")
    assert (found.plugin, found.package) == ("tree-search", "tree_search")
    assert found.config.name == "tree"
    assert "tree-search" not in installed().broken
    assert list(parts("decoder")) == sorted(parts("decoder"))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("", "does not say which versions of the interfaces it supports, such as `supports = (2, 2)`"),
        ("supports = (3, 4)", "says `supports = (3, 4)`; this core has version 2"),
        ("supports = 1", "TypeError"),
        (DECODER.format(name="x").replace("bench_decoders()", "bench_decoders(model)"), "model"),
        (
            DECODER.format(name="x").replace("bench_decoders()", "bench_dekoders()"),
            "a hook that the core does not have",
        ),
        (DECODER.format(name="x").replace("[Config]", "[Confi]"), "NameError: name 'Confi' is not defined"),
        (DECODER.format(name="x").replace("[Config]", "Config"), "is not iterable"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_told_and_the_others_work(install, code, reason):
    install("good-one", DECODER.format(name="good"))
    install("bad-one", code)
    assert reason in installed().broken["bad-one"]
    assert part("decoder", "good").distribution == "good-one"
    assert "bad-one" not in installed().origins
    assert not [name for name, found in parts("decoder").items() if found.distribution == "bad-one"]


def test_a_name_that_is_not_found_tells_which_plugins_were_not_loaded(install):
    install("bad-one", "import no_such_library")
    with pytest.raises(SuiteError, match=r"no decoder is called 'tree'.*Not loaded: bad-one; see `bench list`"):
        part("decoder", "tree")


def test_two_distributions_that_claim_a_name_are_refused_with_both(install):
    install("tree-search", DECODER.format(name="tree"))
    install("wood-search", DECODER.format(name="tree"))
    with pytest.raises(PluginError, match=r"decoder 'tree' is provided by both") as error:
        parts("decoder")
    assert "tree-search" in str(error.value)
    assert "wood-search" in str(error.value)
    parts("metric")


def test_all_claimed_names_are_told_at_once(install):
    two = DECODER.format(name="a") + 'class Other(Config):\n    name = "b"\n'
    two = two.replace("[Config]", "[Config, Other]")
    install("one-search", two)
    install("two-search", two)
    with pytest.raises(PluginError, match=r"decoder 'a' .*; decoder 'b' "):
        parts("decoder")


def test_a_near_name_is_suggested():
    with extra(toys), pytest.raises(SuiteError, match=r"no model is called 'toy-latten'. Did you mean 'toy-latent'"):
        part("model", "toy-latten")


def test_suggestions_name_the_nearest_or_all():
    known = ["lstm", "gru", "rnn"]
    assert suggestion("lstn", known) == "Did you mean 'lstm'?"
    assert suggestion("transformer", known, "Installed") == "Installed: lstm, gru, rnn."
    assert suggestion("x", []) == "Known: none."


def test_plugins_of_no_distribution_are_there_for_a_while():
    before = {kind: parts(kind) for kind in ("model", "decoder", "task", "metric")}
    with extra(toys):
        for kind, configs in (
            ("model", toys.bench_models()),
            ("decoder", toys.bench_decoders()),
            ("task", toys.bench_tasks()),
            ("metric", toys.bench_metrics()),
        ):
            for config in configs:
                found = part(kind, config.name)
                assert found.config is config
                assert (found.distribution, found.package) == ("bench_core", "bench_core")
            assert before[kind].keys() < parts(kind).keys()
    assert {kind: parts(kind) for kind in before} == before


def test_plugins_of_no_distribution_are_gone_after_an_error():
    def fail():
        with extra(toys):
            raise RuntimeError

    before = parts("model")
    with pytest.raises(RuntimeError):
        fail()
    assert parts("model") == before


def test_a_module_that_supports_another_version_is_refused():
    module = ModuleType("ancient")
    module.supports = (0, 0)
    with pytest.raises(PluginError, match="ancient"), extra(module):
        pass
    assert "ancient" not in installed().origins
