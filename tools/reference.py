"""Print the references in docs/: the keys of suites, and the parts of this repository with their settings.

They do not depend on which plugins are installed: other plugins are imported from their folders.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from projects import projects
from pydantic import BaseModel

from bench_authors.settings_words import Setting, SettingGroup
from bench_authors.settings_words import about as doc
from bench_authors.settings_words import groups as groups_of
from bench_authors.settings_words import settings as settings_of
from bench_core.registry import Part, installed, kinds, parts
from bench_core.suites import schema, training
from bench_core.suites.axes import AXES
from bench_core.suites.schema import SuiteFile
from bench_reports.language import figure_schema, published
from bench_reports.language import schema as reports_schema
from bench_reports.language.schema import ReportSections
from bench_training import settings as training_settings

HOME = Path(__file__).parent
MAX_DEFAULT = 80  # characters; longer defaults are replaced by links
PROPERTIES = ("capabilities", "needs", "sources", "source", "likelihoods", "about")


def page(name: Literal["suites", "parts"]) -> str:
    """Return the text of docs/suites.md or docs/parts.md."""
    templates = Environment(
        loader=FileSystemLoader(HOME / "templates"), undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    parts_by_kind = parts_of_ours()
    return templates.get_template(f"{name}.md.j2").render(
        keys=keys, about=about, axes=AXES, parts=parts_by_kind, part=description, overview=overview,
        costs=figure_schema.COSTS, of_all_stages=figure_schema.OF_ALL_STAGES,
    )  # fmt: skip


def parts_of_ours() -> dict[str, list[Part]]:
    """Return the parts of the distributions in this repository, by kind."""
    ours = projects()
    with _every_plugin():
        return {kind: [part for part in parts(kind).values() if part.distribution in ours] for kind in kinds()}


@contextmanager
def _every_plugin() -> Iterator[None]:
    """Temporarily register the plugins that are not installed; their `plugin.py` needs no extras."""
    registry, added = installed(), []
    for project in projects().values():
        for name, module in project.about.get("entry-points", {}).get("bench", {}).items():
            if name not in registry.origins:
                sys.path.append(str(project.folder))
                registry.add(name, import_module(module), project.name, project.version)
                added.append((name, str(project.folder)))
    parts.cache_clear()
    try:
        yield
    finally:
        for name, folder in added:
            registry.manager.unregister(name=name)
            del registry.origins[name]
            sys.path.remove(folder)
        parts.cache_clear()


def about(name: str) -> str:
    """Return the docstring of a suite mapping."""
    return doc(_mapping(name))


def keys(name: str) -> str:
    """Return the keys of a suite mapping, as a Markdown table."""
    several = (SuiteFile, ReportSections) if name == "SuiteFile" else (_mapping(name),)
    return settings(several, "key")


def overview(parts_of_kind: Sequence[Part]) -> str:
    """Return a Markdown table of parts, with links to their sections."""
    rows = [
        (f"[`{part.config.name}`](#{part.kind}-{part.config.name})", doc(part.config).partition("\n")[0], _home(part))
        for part in parts_of_kind
    ]
    return table(["name", "what it is", "from"], rows)


def description(part: Part) -> str:
    """Return the description of a part: docstring, properties and settings, as Markdown."""
    properties = [f"{name}: {fact}" for name in PROPERTIES if (fact := _fact(part.config, name))]
    settings_table = settings([part.config], "setting") if part.config.model_fields else "No settings."
    inside = "\n".join(map(_group, groups_of(part.config)))
    sections = [doc(part.config), "; ".join([f"From {_home(part)}", *properties]) + ".", settings_table, inside]
    return "\n\n".join(filter(None, sections))


def settings(configs: Sequence[type[BaseModel]], what: str) -> str:
    """Return a Markdown table of the fields of classes: name, type, default and meaning."""
    rows_ = (setting for config in configs for setting in settings_of(config))
    rows = [(f"`{setting.name}`", setting.type, _default(setting), setting.meaning) for setting in rows_]
    return table([what, "type", "default", "meaning"], rows)


def _mapping(name: str) -> type[BaseModel]:
    mapping: type[BaseModel] = next(
        getattr(module, name)
        for module in (schema, reports_schema, figure_schema, published, training_settings, training)
        if hasattr(module, name)
    )
    return mapping


def _home(part: Part) -> str:
    """Return the distribution of a part, linked to its README if that is in this repository."""
    folder = f"plugins/{part.distribution.removeprefix('bench-')}"
    there = (HOME.parent / folder / "README.md").is_file()
    return f"[{part.distribution}](../{folder}/README.md)" if there else part.distribution


def _fact(config: Any, name: str) -> str:
    """Return a property of a part from its Config; an empty string if it is unset."""
    value = getattr(config, name, None)
    if isinstance(value, property):
        return "depends on the settings"
    if isinstance(value, Mapping):
        return ", ".join(f"`{item}` ({kind})" for item, kind in value.items())
    if isinstance(value, frozenset | set):
        return ", ".join(sorted(getattr(item, "__name__", str(item)) for item in value))
    return "" if value is None else str(getattr(value, "__name__", value))


def _group(group: SettingGroup) -> str:
    """Return a list item about a mapping accepted by a setting."""
    inside = "; ".join(f"`{setting.name}` ({_words(setting)})" for setting in group.settings)
    return f"- `{group.shape}`: {group.about}{f' {inside}.' if inside else ''}"


def _words(setting: Setting) -> str:
    return ", ".join(filter(None, (setting.type, _default(setting), setting.meaning)))


def _default(setting: Setting) -> str:
    if len(setting.default) > MAX_DEFAULT:
        return f"see [{setting.name}](#{setting.name})"
    return f"`{setting.default}`" if setting.default and setting.default != "required" else setting.default


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table without padding, so that a changed row does not affect others."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [" | ".join(row) for row in [headings, ["---"] * len(headings), *escaped]]
    return "\n".join(f"| {line} |".replace("  ", " ") for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page("suites" if sys.argv[1:] == ["suites"] else "parts"))
