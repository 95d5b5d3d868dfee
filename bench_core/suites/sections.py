"""Reads a suite file section by section, so that a mistake in one hides none in another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

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
    rest = {key: value for key, value in data.items() if key not in found}
    return problems.parsed(SuiteFile, rest, ()).model_copy(update=found)


def _hardware(given: Mapping[str, Any], problems: Problems) -> Any:
    several = any(isinstance(one, Mapping) for one in given.values()) and not {*given} & {*Hardware.model_fields}
    if not several:
        return problems.parsed(Hardware, given, ("hardware",))
    return {name: problems.parsed(Hardware, one, ("hardware", name)) for name, one in given.items()}
