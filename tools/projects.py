"""The distributions of this repository: their folders, and what their pyproject.toml files declare."""

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
    """A folder with a pyproject.toml."""

    folder: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        """Return the table `project`."""
        found: dict[str, Any] = tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))["project"]
        return found

    @property
    def name(self) -> str:
        """Return the name of the distribution."""
        return str(self.about["name"])

    @property
    def version(self) -> str:
        """Return its version."""
        return str(self.about["version"])

    @property
    def extras(self) -> dict[str, list[str]]:
        """Return the requirements of each extra."""
        return dict(self.about.get("optional-dependencies", {}))

    def requires(self, extras: Iterable[str] = ()) -> list[str]:
        """Return its requirements, with those of extras."""
        return [*self.about.get("dependencies", []), *(one for extra in extras for one in self.extras[extra])]


def projects() -> dict[str, Project]:
    """Return all distributions by name, the core first."""
    folders = [ROOT, *(path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml")))]
    return {project.name: project for project in map(Project, folders)}


def split(requirement: str) -> tuple[str, list[str], str]:
    """Return the name, the extras and the rest of a requirement."""
    found = re.fullmatch(r"([\w.-]+)(?:\[([^\]]*)\])?(.*)", requirement)
    assert found, requirement
    return found[1], [one.strip() for one in (found[2] or "").split(",") if one.strip()], found[3]


def third_parties(requirements: Iterable[str]) -> list[str]:
    """Return what distributions of this repository require of others, in turn, sorted."""
    return sorted(set(_third_parties(requirements, projects(), set())))


def _third_parties(requirements: Iterable[str], ours: dict[str, Project], seen: set[str]) -> Iterator[str]:
    for requirement in requirements:
        name, extras, _ = split(requirement)
        if name not in ours:
            yield requirement
        elif requirement not in seen:
            seen.add(requirement)
            yield from _third_parties(ours[name].requires(extras), ours, seen)
