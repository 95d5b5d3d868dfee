"""Reads a suite file section by section, so that a mistake in one hides none in another."""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel

from bench_core.errors import PluginError
from bench_core.optional import SECTIONS, source
from bench_core.registry import sections
from bench_core.sections import CellStage, Section
from bench_core.suites.cells import Cell
from bench_core.suites.grids import ModelGrid
from bench_core.suites.schema import Hardware, SuiteFile
from bench_core.suites.suite import Suite
from placed_settings import Problems

T = TypeVar("T", bound=BaseModel)


def suite_file(data: Mapping[str, Any], problems: Problems) -> SuiteFile:
    """Return a suite file after reporting every problem; invalid sections and settings are unreadable."""
    others = {*added(), *({*SECTIONS} - {*SuiteFile.model_fields})}
    for key in others & {*data} - {*added()}:
        text = f"`{key}` is read by {source(SECTIONS[key])}, which is not installed."
        problems.notes.append(f"{problems.source.place([key])}: {text}")
    known = {key: value for key, value in data.items() if key not in others}
    found = {}
    if isinstance(hardware := known.get("hardware"), Mapping):
        found["hardware"] = _hardware(hardware, problems)
        del known["hardware"]
    return by_entry(SuiteFile, known, problems).model_copy(update=found)


def by_entry(schema: type[T], data: Mapping[str, Any], problems: Problems) -> T:
    """Return data as a `schema`, after reporting every problem; lists of mappings are read entry by entry."""
    found: dict[str, Any] = {}
    for key, field in schema.model_fields.items():
        kind = next(iter(get_args(field.annotation)), None) if get_origin(field.annotation) is list else None
        if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(data.get(key), list):
            found[key] = [problems.parsed(kind, one, (key, place)) for place, one in enumerate(data[key])]
    rest = {key: value for key, value in data.items() if key not in found}
    return problems.parsed(schema, rest, ()).model_copy(update=found)


def added() -> Mapping[str, Section]:
    """Return the sections that plugins add, by key; raise PluginError for a key of the core, or of two plugins."""
    found: dict[str, Section] = {}
    for section in sections():
        for key in schema_of(section).model_fields if section.schema else ():
            if key in found or key in SuiteFile.model_fields:
                owner = "another plugin" if key in found else "the core"
                raise PluginError(
                    f"{type(section).__qualname__} adds the section {key!r}, which {owner} has. Rename it."
                )
            found[key] = section
    return found


def schema_of(section: Section) -> type[BaseModel]:
    """Return the class whose fields are the keys of a section."""
    return _resolved(section.schema)


@cache
def _resolved(name: str) -> type[BaseModel]:
    return resolve_name(name)  # type: ignore[no-any-return]


def of_plugins(data: Mapping[str, Any], grids: Mapping[str, ModelGrid], problems: Problems) -> dict[str, Any]:
    """Return what a suite file has for the keys of plugins, by key, after reporting what does not fit.

    Names of grids are replaced by their combinations. Invalid keys are missing.
    """
    found: dict[str, Any] = {}
    for section in sections():
        if section.schema:
            schema = schema_of(section)
            read = by_entry(schema, {key: one for key, one in data.items() if key in schema.model_fields}, problems)
            values = {key: getattr(read, key) for key in schema.model_fields if hasattr(read, key)}
            found |= section.expand(values, grids)
    return found


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
