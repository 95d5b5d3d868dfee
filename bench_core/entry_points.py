"""What installed distributions declare: entry points for bench, read once, and requirements."""

from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cache
from importlib import metadata
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

PARTS = "bench"  #: group of modules that answer hooks
COMMANDS = "bench.commands"  #: group of click commands, each called as its entry point


@cache
def _all() -> Any:
    return entry_points()  # a mapping in Python 3.11, a tuple later; both can `select`


def declared(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, by name."""
    return sorted(_all().select(group=group), key=lambda entry: entry.name)


@dataclass(frozen=True)
class About:
    """What a distribution says of itself."""

    name: str
    version: str
    requires: tuple[str, ...]
    extras: frozenset[str]


def about(found: Distribution) -> About:
    """Return what a distribution says of itself; its long description, which takes the most time, is not read."""
    text = found.read_text("METADATA")
    if text is None:  # as of installations by old tools
        return About(found.name, found.version, (*(found.requires or ()),), frozenset())
    told = HeaderParser().parsestr(text.partition("\n\n")[0])
    several = (*told.get_all("Requires-Dist", ()),), frozenset(told.get_all("Provides-Extra", ()))
    return About(told["Name"], told["Version"], *several)


def origin(entry: EntryPoint) -> tuple[str, str]:
    """Return the distribution of an entry point, and its version."""
    if not entry.dist:
        return entry.value, ""
    found = about(entry.dist)
    return found.name, found.version


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
        found = map(Requirement, about(metadata.distribution(distribution)).requires)
    except PackageNotFoundError:  # or a test's own plugin
        return None
    return {canonicalize_name(one.name): one for one in found if not one.marker or one.marker.evaluate({"extra": ""})}
