"""`bench describe` prints the meaning of all settings, including nested settings; `bench list` finds parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from click.testing import CliRunner
from pydantic import Field, PositiveInt

from bench_authors.settings_words import groups, settings
from bench_core import ModelConfig, Stepper, hookimpl, registry
from bench_core.commands.main import bench
from bench_core.config import Settings
from bench_core.data import Kind


class Deep(Settings):
    """A nested mapping."""

    size: Annotated[int, Field(ge=2, lt=9)] = 3  #: how large it is


class Own(Settings):
    """One of one's own."""

    kind: Literal["own"] = "own"
    deep: Deep = Deep()  #: what is inside
    names: tuple[str, ...] = ("a", "b")  #: of all


class DescribedConfig(ModelConfig):
    """A model to describe."""

    name, target, capabilities = "described-model", "nowhere:Model", {Stepper}
    likelihoods: Mapping[str, Kind] = {}
    inner: Own | None = None  #: an inner mapping
    width: PositiveInt  #: chains that are kept
    mode: Literal["first", "last"] = "last"  #: which one
    share: float | None = Field(None, gt=0, le=1)  #: of the rest


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return [DescribedConfig]


@pytest.fixture
def say():
    import sys

    def run(*words, code=None):
        result = CliRunner().invoke(bench, words, standalone_mode=False)
        if code is None:
            assert result.exception is None, result.exc_info
            return result.output
        return str(result.exception)

    with registry.extra(sys.modules[__name__]):
        yield run


def test_meanings_limits_choices_and_defaults_are_printed_at_every_depth(say):
    shown = say("describe", "model", "described-model")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "width whole number > 0 required chains that are kept" in lines
    assert "mode first or last last which one" in lines
    assert "share number > 0 ≤ 1 of the rest" in lines
    assert "size whole number ≥ 2 < 9 3 how large it is" in lines
    assert "inner: {kind: own, deep, names}" in lines
    assert "names list of text [a, b] of all" in lines
    assert "inner.deep: {size}" in lines


def test_the_kind_can_be_omitted_if_the_name_is_unique(say):
    assert say("describe", "described-model") == say("describe", "model", "described-model")
    assert say("describe", "models", "described-model") == say("describe", "model", "described-model")
    assert "Did you mean 'described-model'?" in say("describe", "describd-model", code=2)


def test_a_name_shared_by_two_kinds_needs_the_kind(say, monkeypatch):
    original = registry.parts
    both = {"model", "decoder"}
    patched_parts = lambda kind: original("model") if kind in both else original(kind)  # noqa: E731
    monkeypatch.setattr("bench_authors.commands.describe.parts", patched_parts)
    output = say("describe", "described-model", code=2)
    assert "`bench describe model described-model` or `bench describe decoder described-model`" in output


def test_the_description_as_json_has_the_same_settings(say):
    description = json.loads(say("describe", "described-model", "--json"))
    assert [row["setting"] for row in description["settings"]] == [
        setting.name for setting in settings(DescribedConfig)
    ]
    assert [group["place"] for group in description["inside"]] == [group.place for group in groups(DescribedConfig)]


def test_an_unknown_kind_is_reported_with_a_suggestion(say):
    assert "Did you mean 'model'?" in say("list", "modles", code=2)
    assert "'described-model' is a model; see `bench describe model described-model`" in say(
        "list", "described-model", code=2
    )
    assert say("list", "models") == say("list", "model")


def test_broken_plugins_are_listed_before_all_parts(say, monkeypatch):
    monkeypatch.setitem(registry.installed().broken, "bench-odd", "ImportError: no")
    shown = say("list", "model")
    assert shown.startswith("broken: bench-odd: ImportError: no")


def test_the_plugins_of_a_machine_are_wrapped(say, monkeypatch):
    many = {f"plugin{number}": (f"bench-plugin-{number}", "1.0") for number in range(60)}
    monkeypatch.setattr(registry.installed(), "origins", {**registry.installed().origins, **many})
    assert max(map(len, say("doctor").splitlines())) < 140
