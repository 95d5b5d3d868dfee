"""Optional dependencies: the extras of a distribution that a part needs, and how to install them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from bench_core.entry_points import about
from bench_core.errors import PluginError

if TYPE_CHECKING:
    from bench_core.config import Config
    from bench_core.registry import Part


def missing(owner: str, extras: Iterable[str]) -> list[str]:
    """Return the missing third-party requirements of a distribution's extras, in pip's syntax.

    Our own distributions are replaced by their requirements, because others may own their names on a package index.
    Raises PluginError for an extra that the distribution does not declare.
    """
    return list(dict.fromkeys(_missing(owner, extras, set())))


def _missing(owner: str, extras: Iterable[str], seen: set[tuple[str, str]]) -> Iterator[str]:
    try:
        metadata = about(distribution(owner))
    except PackageNotFoundError:  # a plugin without a distribution, such as in a test
        return
    for extra in sorted(set(extras)):
        if (owner, extra) in seen:
            continue
        seen.add((owner, extra))
        if extra not in metadata.extras:
            raise PluginError(f"{owner} has no extra called {extra!r}. Declare it in its pyproject.toml.")
        for requirement in map(Requirement, metadata.requires):
            if requirement.marker and requirement.marker.evaluate({"extra": extra}):
                yield from _unmet(requirement, seen)


def _unmet(requirement: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    ours = requirement.name.startswith("bench-")
    try:
        version = about(distribution(requirement.name)).version
    except PackageNotFoundError:
        version = None
    if ours or (version and requirement.specifier.contains(version, prereleases=True)):
        inner = list(_missing(requirement.name, requirement.extras, seen))
        yield from inner if ours else [_plain(requirement)] * bool(inner)
    else:
        yield _plain(requirement)


def _plain(requirement: Requirement) -> str:
    """Return a requirement without its marker."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def command(requirements: Iterable[str]) -> str:
    """Return the command that installs requirements into this environment."""
    python = Path(sys.executable)
    interpreter = python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python
    return shlex.join([str(interpreter), "-m", "pip", "install", *requirements])


def remedy(part: Part, config: Config | None = None) -> str | None:
    """Return the command that installs the missing requirements of a part (with these settings), or None."""
    extras = (config or part.config.model_construct()).extras()
    requirements = missing(part.distribution, extras) if extras else []
    return command(requirements) if requirements else None
