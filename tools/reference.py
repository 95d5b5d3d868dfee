"""The reference in docs/: what can stand in a suite, and the settings of every part of this repository, from classes.

It is the same whichever plugins are installed: those that are not are read from their folders.
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

from bench_authors.settings_words import Group, Setting
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
LONGEST = 80  # characters of a default that is shown
FACTS = ("capabilities", "needs", "sources", "source", "likelihoods", "about")


def page(name: Literal["suites", "parts"]) -> str:
    """Return docs/suites.md or docs/parts.md."""
    templates = Environment(
        loader=FileSystemLoader(HOME / "templates"), undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    known = parts_of_ours()
    return templates.get_template(f"{name}.md.j2").render(
        keys=keys, about=about, axes=AXES, parts=known, part=described, overview=overview,
        costs=figure_schema.COSTS, of_all_stages=figure_schema.OF_ALL_STAGES,
    )  # fmt: skip


def parts_of_ours() -> dict[str, list[Part]]:
    """Return the parts of all distributions of this repository by kind, and no other's."""
    ours = projects()
    with _every_plugin():
        return {kind: [one for one in parts(kind).values() if one.distribution in ours] for kind in kinds()}


@contextmanager
def _every_plugin() -> Iterator[None]:
    """Register the plugins of this repository that are not installed: their light modules import no extra."""
    found, added = installed(), []
    for project in projects().values():
        for name, module in project.about.get("entry-points", {}).get("bench", {}).items():
            if name not in found.origins:
                sys.path.append(str(project.folder))
                found.add(name, import_module(module), project.name, project.version)
                added.append((name, str(project.folder)))
    parts.cache_clear()
    try:
        yield
    finally:
        for name, folder in added:
            found.manager.unregister(name=name)
            del found.origins[name]
            sys.path.remove(folder)
        parts.cache_clear()


def about(name: str) -> str:
    """Return what the docstring of a mapping of suites says."""
    return doc(_mapping(name))


def keys(name: str) -> str:
    """Return the keys of a mapping of suites as a Markdown table."""
    several = (SuiteFile, ReportSections) if name == "SuiteFile" else (_mapping(name),)
    return settings(several, "key")


def overview(known: Sequence[Part]) -> str:
    """Return the parts of a kind as a Markdown table, each with a link to what is said of it below."""
    rows = [
        (f"[`{one.config.name}`](#{one.kind}-{one.config.name})", doc(one.config).partition("\n")[0], _home(one))
        for one in known
    ]
    return table(["name", "what it is", "from"], rows)


def described(part: Part) -> str:
    """Return all that is known of a part's face, as Markdown."""
    known = [f"{name}: {fact}" for name in FACTS if (fact := _fact(part.config, name))]
    own = settings([part.config], "setting") if part.config.model_fields else "No settings."
    inside = "\n".join(map(_group, groups_of(part.config)))
    sections = [doc(part.config), "; ".join([f"From {_home(part)}", *known]) + ".", own, inside]
    return "\n\n".join(filter(None, sections))


def settings(configs: Sequence[type[BaseModel]], what: str) -> str:
    """Return the fields of classes as a Markdown table: type, default and meaning of each."""
    every = (one for config in configs for one in settings_of(config))
    rows = [(f"`{one.name}`", one.type, _default(one), one.meaning) for one in every]
    return table([what, "type", "default", "meaning"], rows)


def _mapping(name: str) -> type[BaseModel]:
    found: type[BaseModel] = next(
        getattr(one, name)
        for one in (schema, reports_schema, figure_schema, published, training_settings, training)
        if hasattr(one, name)
    )
    return found


def _home(part: Part) -> str:
    """Return the distribution of a part, with a link where its README is in this repository."""
    folder = f"plugins/{part.distribution.removeprefix('bench-')}"
    there = (HOME.parent / folder / "README.md").is_file()
    return f"[{part.distribution}](../{folder}/README.md)" if there else part.distribution


def _fact(config: Any, name: str) -> str:
    """Return what a Config says of its class besides its settings."""
    value = getattr(config, name, None)
    if isinstance(value, property):
        return "by its settings"
    if isinstance(value, Mapping):
        return ", ".join(f"`{one}` ({kind})" for one, kind in value.items())
    if isinstance(value, frozenset | set):
        return ", ".join(sorted(getattr(one, "__name__", str(one)) for one in value))
    return "" if value is None else str(getattr(value, "__name__", value))


def _group(one: Group) -> str:
    """Return a line about a mapping that a setting may be."""
    inside = "; ".join(f"`{each.name}` ({_words(each)})" for each in one.settings)
    return f"- `{one.shape}`: {one.about}{f' {inside}.' if inside else ''}"


def _words(one: Setting) -> str:
    return ", ".join(filter(None, (one.type, _default(one), one.meaning)))


def _default(one: Setting) -> str:
    if len(one.default) > LONGEST:
        return f"see [{one.name}](#{one.name})"
    return f"`{one.default}`" if one.default and one.default != "required" else one.default


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, as narrow as it can be: a changed row changes no other."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [" | ".join(row) for row in [headings, ["---"] * len(headings), *escaped]]
    return "\n".join(f"| {line} |".replace("  ", " ") for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page("suites" if sys.argv[1:] == ["suites"] else "parts"))
