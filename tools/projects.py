"""The distributions of this repository, from their pyproject.toml files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

META = "bench-all"
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Project:
    """A distribution: a folder with a pyproject.toml."""

    folder: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        """Return the `project` table of pyproject.toml."""
        table: dict[str, Any] = tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))["project"]
        return table

    @property
    def name(self) -> str:
        """Return the name of the distribution."""
        return str(self.about["name"])

    @property
    def version(self) -> str:
        """Return the version of the distribution."""
        return str(self.about["version"])

    @property
    def extras(self) -> dict[str, list[str]]:
        """Return the requirements of each extra."""
        return dict(self.about.get("optional-dependencies", {}))

    def requires(self, extras: Iterable[str] = ()) -> list[str]:
        """Return the requirements, including requirements of the given extras."""
        return [*self.about.get("dependencies", []), *(each for extra in extras for each in self.extras[extra])]


def projects() -> dict[str, Project]:
    """Return all distributions by name, the core first."""
    folders = [ROOT, *(path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml")))]
    return {project.name: project for project in map(Project, folders)}


def split(requirement: str) -> tuple[str, list[str], str]:
    """Return the name, the extras and the rest of a requirement."""
    match = re.fullmatch(r"([\w.-]+)(?:\[([^\]]*)\])?(.*)", requirement)
    assert match, requirement
    return match[1], [extra.strip() for extra in (match[2] or "").split(",") if extra.strip()], match[3]


def third_parties(requirements: Iterable[str]) -> list[str]:
    """Return the sorted third-party requirements of distributions, including indirect requirements."""
    return sorted(set(_third_parties(requirements, projects(), set())))


def _third_parties(requirements: Iterable[str], ours: dict[str, Project], seen: set[str]) -> Iterator[str]:
    for requirement in requirements:
        name, extras, _ = split(requirement)
        if name not in ours:
            yield requirement
        elif requirement not in seen:
            seen.add(requirement)
            yield from _third_parties(ours[name].requires(extras), ours, seen)
