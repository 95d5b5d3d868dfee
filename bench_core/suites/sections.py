"""Reads a suite file section by section, so that a mistake in one hides none in another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pkgutil import resolve_name
from typing import Any

from pydantic import BaseModel

from bench_core.errors import PluginError
from bench_core.registry import sections
from bench_core.sections import CellStage
from bench_core.suites.cells import Cell
from bench_core.suites.figure_schema import Figure
from bench_core.suites.problems import Problems
from bench_core.suites.schema import Choice, Claim, Hardware, Skip, SuiteFile, Table
from bench_core.suites.suite import Suite

#: The sections that are lists, with the class of an entry.
ENTRIES: Mapping[str, type[BaseModel]] = {
    "skip": Skip, "choose": Choice, "tables": Table, "claims": Claim, "figures": Figure,
}  # fmt: skip


def suite_file(data: Mapping[str, Any], problems: Problems) -> SuiteFile:
    """Return a suite file after reporting every problem; invalid sections and settings are unreadable."""
    found: dict[str, Any] = {}
    for section, schema in ENTRIES.items():
        entries = data.get(section)
        if isinstance(entries, list):
            found[section] = [problems.parsed(schema, one, (section, place)) for place, one in enumerate(entries)]
    if isinstance(data.get("hardware"), Mapping):
        found["hardware"] = _hardware(data["hardware"], problems)
    others = {*found, *added()}
    rest = {key: value for key, value in data.items() if key not in others}
    return problems.parsed(SuiteFile, rest, ()).model_copy(update=found)


def added() -> Mapping[str, str]:
    """Return the keys that sections of plugins add, each with the class of its value.

    Raises PluginError if one is a key of the core, or of two plugins.
    """
    found: dict[str, str] = {}
    for section in sections():
        for key, schema in section.schema.items():
            if key in found or key in SuiteFile.model_fields:
                owner = "another plugin" if key in found else "the core"
                raise PluginError(
                    f"{type(section).__qualname__} adds the section {key!r}, which {owner} has. Rename it."
                )
            found[key] = schema
    return found


def of_plugins(data: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """Return what a suite file has for the keys of plugins, after reporting what does not fit."""
    schemas = {key: schema for key, schema in added().items() if key in data}
    return {key: problems.parsed(resolve_name(schema), data[key], (key,)) for key, schema in schemas.items()}


def cell_stages(suite: Suite, cell: Cell, known: Collection[str]) -> Iterator[tuple[str, CellStage]]:
    """Yield the stages that sections want of a cell, by name; `known` names those that it has, also while it grows.

    Raises PluginError for a name that is taken, and for one that reads what the cell lacks.
    """
    for section in sections():
        for one in section.stages(suite, cell):
            name, asking = f"{one.kind}/{one.name}", type(section).__qualname__
            if name in known:
                raise PluginError(f"{asking} asks for the stage {name} twice, or for one that is there. Rename it.")
            if one.reads not in known:
                raise PluginError(f"{asking}: {name} reads {one.reads}, and the cell has {', '.join(known)}.")
            yield name, one


def _hardware(given: Mapping[str, Any], problems: Problems) -> Any:
    several = any(isinstance(one, Mapping) for one in given.values()) and not {*given} & {*Hardware.model_fields}
    if not several:
        return problems.parsed(Hardware, given, ("hardware",))
    return {name: problems.parsed(Hardware, one, ("hardware", name)) for name, one in given.items()}
