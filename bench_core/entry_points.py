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
    """The metadata of a distribution."""

    name: str
    version: str
    requires: tuple[str, ...]
    extras: frozenset[str]


def about(found: Distribution) -> About:
    """Return the metadata of a distribution without its long description, which takes the most time to parse."""
    text = found.read_text("METADATA")
    headers = text or found.read_text("PKG-INFO") or ""  # the latter is what old tools write
    told = HeaderParser().parsestr(headers.partition("\n\n")[0])
    requires = told.get_all("Requires-Dist", ()) if text else found.requires or ()
    return About(told["Name"], told["Version"], (*requires,), frozenset(told.get_all("Provides-Extra", ())))


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
