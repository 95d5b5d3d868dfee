"""Reads a suite file section by section, so that a mistake in one section does not hide others."""

from collections.abc import Collection, Iterator, Mapping
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
    """Parse a suite file and report every problem; invalid sections and settings are unreadable."""
    others = {*added(), *({*SECTIONS} - {*SuiteFile.model_fields})}
    for key in others & {*data} - {*added()}:
        text = f"`{key}` is read by {source(SECTIONS[key])}, which is not installed."
        problems.notes.append(f"{problems.source.place([key])}: {text}")
    core = {key: value for key, value in data.items() if key not in others}
    parsed = {}
    if isinstance(hardware := core.get("hardware"), Mapping):
        parsed["hardware"] = _hardware(hardware, problems)
        del core["hardware"]
    return by_entry(SuiteFile, core, problems).model_copy(update=parsed)


def by_entry(schema: type[T], data: Mapping[str, Any], problems: Problems) -> T:
    """Parse data as a `schema` and report every problem; lists of mappings are read entry by entry."""
    entries: dict[str, Any] = {}
    for key, field in schema.model_fields.items():
        kind = next(iter(get_args(field.annotation)), None) if get_origin(field.annotation) is list else None
        if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(data.get(key), list):
            entries[key] = [problems.parsed(kind, entry, (key, place)) for place, entry in enumerate(data[key])]
    rest = {key: value for key, value in data.items() if key not in entries}
    return problems.parsed(schema, rest, ()).model_copy(update=entries)


def added() -> Mapping[str, Section]:
    """Return the sections that plugins add, by key; raise PluginError for a key of the core or another plugin."""
    added_sections: dict[str, Section] = {}
    for section in sections():
        for key in schema_of(section).model_fields if section.schema else ():
            if key in added_sections or key in SuiteFile.model_fields:
                owner, plugin = "another plugin" if key in added_sections else "the core", type(section).__qualname__
                raise PluginError(f"{plugin} adds the section {key!r}, which {owner} defines. Rename it.")
            added_sections[key] = section
    return added_sections


def schema_of(section: Section) -> type[BaseModel]:
    """Return the class whose fields are the keys of a section."""
    return resolve_name(section.schema)  # type: ignore[no-any-return]


def of_plugins(data: Mapping[str, Any], grids: Mapping[str, ModelGrid], problems: Problems) -> dict[str, Any]:
    """Parse the keys of plugins in a suite file and report every problem; invalid keys are missing.

    Names of grids are replaced by their combinations.
    """
    values_by_key: dict[str, Any] = {}
    for section in sections():
        if section.schema:
            schema = schema_of(section)
            read = by_entry(schema, {key: item for key, item in data.items() if key in schema.model_fields}, problems)
            values = {key: getattr(read, key) for key in schema.model_fields if hasattr(read, key)}
            values_by_key |= section.expand(values, grids)
    return values_by_key


def cell_stages(suite: Suite, cell: Cell, known: Collection[str]) -> Iterator[tuple[str, CellStage]]:
    """Yield the stages that sections add to a cell, by name; `known`, the cell's stages, may grow meanwhile.

    Raises PluginError for a duplicate name, and for a stage whose input the cell lacks.
    """
    for section in sections():
        for stage in section.stages(suite, cell):
            name, owner = f"{stage.kind}/{stage.name}", type(section).__qualname__
            if name in known:
                raise PluginError(f"{owner} adds the stage {name}, which the cell already has. Rename it.")
            if stage.reads not in known:
                raise PluginError(f"{owner}: {name} reads {stage.reads}, but the cell only has {', '.join(known)}.")
            yield name, stage


def _hardware(data: Mapping[str, Any], problems: Problems) -> Any:
    several = any(isinstance(item, Mapping) for item in data.values()) and not {*data} & {*Hardware.model_fields}
    if not several:
        return problems.parsed(Hardware, data, ("hardware",))
    return {name: problems.parsed(Hardware, item, ("hardware", name)) for name, item in data.items()}
