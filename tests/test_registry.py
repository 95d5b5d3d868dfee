"""Plugins are found, and a bad one is told by name while the others work."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

from bench_authors.testing import toys
from bench_core import PluginError, SuiteError, entry_points
from bench_core.registry import extra, installed, kinds, part, parts, suggestion

HERE = version("bench-core")
DECODER = """
from bench_core import DecoderConfig, Stepper, hookimpl

class Config(DecoderConfig):
    name, target, needs = {name!r}, "nowhere:Nothing", Stepper

@hookimpl
def bench_decoders():
    return [Config]
"""


SPICES = """
from bench_core import Config, hookimpl, hookspec

class hookspecs:
    @hookspec
    def bench_spices():
        ...

class Pepper(Config):
    name = "pepper"

@hookimpl
def bench_spices():
    return [Pepper]
"""
SALT = """
import bench_core

class Salt(bench_core.Config):
    name = "salt"

@bench_core.hookimpl
def bench_spices():
    return [Salt]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that puts a distribution with one plugin on the path."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(distribution, code, *requires):
        module = distribution.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{module}-2.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "\n".join(
                ["Metadata-Version: 2.1", f"Name: {distribution}", "Version: 2.5"]
                + [f"Requires-Dist: {one}" for one in requires or ("bench-core",)]
            )
        )
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
        ("import sys\nsys.exit(0)", "SystemExit: 0"),
        (
            "supports = (3, 4)",
            f"says `supports = (3, 4)`; this is bench-core {HERE}, with version 2 of the interfaces",
        ),
        ("supports = 1", "TypeError"),
        (DECODER.format(name="x").replace("bench_decoders()", "bench_decoders(model)"), "model"),
        (
            DECODER.format(name="x").replace("bench_decoders()", "bench_dekoders()"),
            "implements the hook 'bench_dekoders', which no loaded plugin defines. Did you mean 'bench_decoders'",
        ),
        (DECODER.format(name="x").replace("[Config]", "[Confi]"), "NameError: name 'Confi' is not defined"),
        (DECODER.format(name="x").replace("[Config]", "Config"), "is not iterable"),
        (
            DECODER.format(name="x").replace("name, target, needs = 'x', ", "target, needs = "),
            "lacks name. Add it there.",
        ),
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


def test_a_name_of_two_distributions_is_refused_where_it_is_used_with_both(install):
    install("tree-search", DECODER.format(name="tree"))
    install("wood-search", DECODER.format(name="tree"))
    wanted = (
        "decoder 'tree' is provided by tree-search and wood-search. Write 'tree-search/tree' or 'wood-search/tree'."
    )
    with pytest.raises(SuiteError, match=re.escape(wanted)):
        part("decoder", "tree")
    for distribution in ("tree-search", "wood-search", "Wood_Search"):
        assert part("decoder", f"{distribution}/tree").distribution == distribution.lower().replace("_", "-")
    assert "tree" not in parts("decoder")
    assert "tree-search/tree" in parts("decoder")


def test_a_name_of_one_distribution_can_be_given_with_it(install):
    install("tree-search", DECODER.format(name="tree"))
    assert part("decoder", "tree-search/tree") is part("decoder", "tree")
    assert "tree-search/tree" not in parts("decoder")


def test_a_distribution_that_could_not_be_loaded_is_told_with_the_reason(install):
    install("tree-search", "1 / 0")
    install("wood-search", DECODER.format(name="tree"))
    with pytest.raises(
        SuiteError, match=r"of tree-search, which cannot be loaded: ZeroDivisionError.* 'wood-search/tree'"
    ):
        part("decoder", "tree-search/tree")


def test_a_distribution_that_provides_a_name_twice_is_told_and_the_others_work(install):
    two = DECODER.format(name="a") + 'class Other(Config):\n    name = "a"\n'
    install("one-search", two.replace("[Config]", "[Config, Other]"))
    install("two-search", DECODER.format(name="b"))
    assert "provides two decoders called 'a'. Rename one of them." in installed().broken["one-search"]
    assert part("decoder", "b").distribution == "two-search"


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
                assert (found.distribution, found.package) == ("bench_authors", "bench_authors")
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


def test_a_hook_with_other_arguments_leaves_no_part_of_its_plugin(install):
    code = DECODER.format(name="x") + "\n@hookimpl\ndef bench_models(more):\n    return []\n"
    install("bad-one", code)
    assert "'more'" in installed().broken["bad-one"]
    assert "x" not in parts("decoder")


def test_a_plugin_can_define_hooks_for_others_whatever_the_order_in_which_they_are_found(install):
    install("salt-first", SALT)
    install("spices", SPICES)
    install("then-salt", SALT.replace('"salt"', '"sea-salt"'))
    assert not {"salt-first", "spices", "then-salt"} & {*installed().broken}
    assert {name: found.distribution for name, found in parts("spice").items()} == {
        "pepper": "spices", "salt": "salt-first", "sea-salt": "then-salt",
    }  # fmt: skip
    assert part("spice", "salt").kind == "spice"
    assert "spice" in kinds()
    with pytest.raises(SuiteError, match=r"no spice is called 'sallt'. Did you mean 'salt'"):
        part("spice", "sallt")


def test_a_hook_of_a_plugin_that_is_not_there_is_told_and_the_others_work(install):
    install("good-one", DECODER.format(name="good"))
    install("salt", SALT, "bench-core", "spices>=1")
    told = installed().broken["salt"]
    assert "salt implements the hook 'bench_spices', which no loaded plugin defines" in told
    assert "Install spices, or write `@hookimpl(optionalhook=True)`" in told
    assert part("decoder", "good").distribution == "good-one"
    with pytest.raises(SuiteError, match="no such kind of part as 'spice'"):
        parts("spice")


def test_a_hook_of_a_plugin_that_is_broken_is_told_with_its_name(install):
    install("spices", "1 / 0")
    install("salt", SALT, "bench-core", "Spices")
    assert "Install spices, or" in installed().broken["salt"]
    assert "ZeroDivisionError" in installed().broken["spices"]


def test_an_optional_hook_of_a_plugin_that_is_not_there_is_ignored(install):
    install("salt", DECODER.format(name="salted") + SALT.replace("hookimpl", "hookimpl(optionalhook=True)"))
    assert "salt" not in installed().broken
    assert part("decoder", "salted").distribution == "salt"


def test_a_hook_that_two_plugins_define_is_that_of_the_first(install):
    install("spices", SPICES)
    install("spices-too", SPICES.replace("pepper", "cumin"))
    assert "Hook 'bench_spices' is already registered" in installed().broken["spices-too"]
    assert "pepper" in parts("spice")


def test_a_hook_of_a_plugin_that_fails_when_asked_is_told(install):
    install("spices", SPICES)
    install("salt", SALT.replace("[Salt]", "[Sallt]"))
    assert "name 'Sallt' is not defined" in installed().broken["salt"]
    assert list(parts("spice")) == ["pepper"]


def test_plugins_of_no_distribution_define_hooks_as_often_as_they_are_added():
    spices, salt = ModuleType("spices"), ModuleType("salt")
    exec(SPICES, vars(spices))
    exec(SALT, vars(salt))
    for _ in range(2):
        with extra(salt, spices):
            assert list(parts("spice")) == ["pepper", "salt"]
        assert list(parts("spice")) == []


MATCHING = [f"bench-core=={HERE}", f"bench-core>={HERE}", "Bench_Core", "bench-core @ file:///wheels/core.whl"]


@pytest.mark.parametrize("line", MATCHING)
def test_a_plugin_whose_distribution_admits_this_core_need_not_say_what_it_supports(install, line):
    install("tree-search", DECODER.format(name="tree"), line)
    assert part("decoder", "tree").distribution == "tree-search"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["bench-core<0.1"], f"requires bench-core<0.1; this is bench-core {HERE}"),
        ([f"bench-core!={HERE}"], f"requires bench-core!={HERE}; this is"),
        (["numpy"], f"declares no dependency such as `bench-core>={HERE}`"),
        (["bench-core; extra == 'test'"], "declares no dependency"),
        (["bench-core; python_version < '3'"], "declares no dependency"),
    ],
)
def test_a_plugin_whose_distribution_does_not_admit_this_core_is_told(install, lines, reason):
    install("good-one", DECODER.format(name="good"))
    install("tree-search", DECODER.format(name="tree"), *lines)
    assert reason in installed().broken["tree-search"]
    assert "or correct what it declares" in installed().broken["tree-search"]
    assert list(parts("decoder")).count("good") == 1
    assert "tree" not in parts("decoder")


def test_what_a_plugin_says_that_it_supports_counts_for_more_than_what_it_requires(install):
    install("tree-search", "supports = (1, 2)\n" + DECODER.format(name="tree"), "numpy")
    assert part("decoder", "tree").distribution == "tree-search"


def test_a_module_of_no_distribution_need_not_say_what_it_supports():
    module = ModuleType("silent")
    with extra(module):
        assert installed().origins["silent"] == ("silent", "")


def test_a_module_that_supports_another_version_is_refused():
    module = ModuleType("ancient")
    module.supports = (0, 0)
    with pytest.raises(PluginError, match="ancient"), extra(module):
        pass
    assert "ancient" not in installed().origins
