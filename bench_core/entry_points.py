"""What installed distributions declare: entry points for bench, read once, and requirements."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, requires, version
from typing import Any

PARTS = "bench"  #: group of modules that answer hooks
COMMANDS = "bench.commands"  #: group of click commands, each called as its entry point


@cache
def _all() -> Any:
    return entry_points()  # a mapping in Python 3.11, a tuple later; both can `select`


def declared(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, by name."""
    return sorted(_all().select(group=group), key=lambda entry: entry.name)


def origin(entry: EntryPoint) -> tuple[str, str]:
    """Return the distribution of an entry point, and its version."""
    return (entry.dist.name, entry.dist.version) if entry.dist else (entry.value, "")


NOT_INSTALLED = "not installed"  #: in place of a version


@cache
def installed_version(distribution: str) -> str:
    """Return the version of a distribution, or "not installed"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return NOT_INSTALLED


def requirements(distribution: str) -> dict[str, Any] | None:
    """Return each `Requirement` of a distribution by canonical name, without extras; None if it is not installed."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        found = map(Requirement, requires(distribution) or ())
    except PackageNotFoundError:  # or a test's own plugin
        return None
    return {canonicalize_name(one.name): one for one in found if not one.marker or one.marker.evaluate({"extra": ""})}
