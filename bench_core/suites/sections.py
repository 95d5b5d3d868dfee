"""Reads a suite file section by section, so that a mistake in one hides none in another."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from pydantic import BaseModel

from bench_core.registry import sections
from bench_core.suites.figure_schema import Figure
from bench_core.suites.problems import Problems
from bench_core.suites.schema import Choice, Claim, Hardware, Skip, SuiteFile, Table

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
    rest = {key: value for key, value in data.items() if key not in found and key not in added()}
    return problems.parsed(SuiteFile, rest, ()).model_copy(update=found)


def added() -> Mapping[str, str]:
    """Return the keys that sections of plugins add, each with the class of its value."""
    return {key: schema for section in sections() for key, schema in section.schema.items()}


def of_plugins(data: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """Return what a suite file has for the keys of plugins, after reporting what does not fit."""
    schemas = {key: schema for key, schema in added().items() if key in data}
    return {key: problems.parsed(resolve_name(schema), data[key], (key,)) for key, schema in schemas.items()}


def _hardware(given: Mapping[str, Any], problems: Problems) -> Any:
    several = any(isinstance(one, Mapping) for one in given.values()) and not {*given} & {*Hardware.model_fields}
    if not several:
        return problems.parsed(Hardware, given, ("hardware",))
    return {name: problems.parsed(Hardware, one, ("hardware", name)) for name, one in given.items()}
