"""Metadata of installed distributions: entry points for bench, read once, and requirements."""

from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cache
from importlib import metadata
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

PARTS = "bench"  #: entry point group of modules that implement hooks
COMMANDS = "bench.commands"  #: entry point group of click commands; each is named like its entry point


_all = cache(entry_points)  # a mapping in Python 3.11, a tuple later; both have `select`


def declared(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name."""
    return sorted(_all().select(group=group), key=lambda entry: entry.name)


@dataclass(frozen=True)
class About:
    """The metadata of a distribution."""

    name: str
    version: str
    requires: tuple[str, ...]
    extras: frozenset[str]


_parsed = cache(HeaderParser().parsestr)


def about(distribution: Distribution) -> About:
    """Return the metadata of a distribution without its long description, which is slow to parse."""
    text = distribution.read_text("METADATA")
    headers = text or distribution.read_text("PKG-INFO") or ""  # old tools write PKG-INFO
    message = _parsed(headers.partition("\n\n")[0])
    requires = message.get_all("Requires-Dist", ()) if text else distribution.requires or ()
    return About(message["Name"], message["Version"], (*requires,), frozenset(message.get_all("Provides-Extra", ())))


def origin(entry: EntryPoint) -> tuple[str, str]:
    """Return the name and version of an entry point's distribution."""
    if not entry.dist:
        return entry.value, ""
    distribution = about(entry.dist)
    return distribution.name, distribution.version


NOT_INSTALLED = "not installed"  #: given in place of a version


@cache
def installed_version(distribution: str) -> str:
    """Return the version of a distribution, or "not installed"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return NOT_INSTALLED


def requirements(distribution: str) -> dict[str, Any] | None:
    """Return the requirements of a distribution by canonical name, without extras; None if it is not installed."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        needed = map(Requirement, about(metadata.distribution(distribution)).requires)
    except PackageNotFoundError:  # or a plugin defined by a test
        return None
    without_extras = (item for item in needed if not item.marker or item.marker.evaluate({"extra": ""}))
    return {canonicalize_name(item.name): item for item in without_extras}
