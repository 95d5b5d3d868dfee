"""The entry points that installed distributions declare for bench, read once."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
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
