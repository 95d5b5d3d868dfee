"""The position of a cell in a heat map: its name on an axis, or the value of a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench_core.suites.grids import word

#: The part of a suite that holds the names on an axis, and those of metrics.
SECTIONS: Mapping[str, str] = {"task": "tasks", "model": "models", "decoder": "decoders", "metric": "metrics"}

MISSING = object()


def label(name: str, setting: str | None, section: Mapping[str, Any]) -> str | None:
    """Return the name, or its setting (`hidden`, `training.lr`) as written in the suite.

    None if the setting is not written there, or has another value for some task (`by_task:`).
    """
    if setting is None:
        return name
    given: Any = section.get(name)
    found = _inside(given, setting)
    by_task = given.get("by_task") if isinstance(given, Mapping) else None
    others = (_inside(changes, setting) for changes in (by_task.values() if isinstance(by_task, Mapping) else ()))
    return None if found is MISSING or any(one not in (MISSING, found) for one in others) else word(found)


def _inside(settings: Any, keys: str) -> Any:
    found = settings
    for key in keys.split("."):
        if not isinstance(found, Mapping) or key not in found:
            return MISSING
        found = found[key]
    return found
