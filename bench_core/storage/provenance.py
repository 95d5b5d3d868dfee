"""What a computation was made with, besides all that is in its key."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from bench_core.planning import keys


def environment(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what results may depend on besides keys, and nothing that names a machine."""
    computing = {name: settings[name] for name in ("device", "precision", "threads") if name in settings}
    versions = {
        "python": platform.python_version(),
        "torch": keys.library("torch"),
        "bench": keys.library("bench-core"),
    }
    return {**versions, **computing}
