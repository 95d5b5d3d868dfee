"""What a machine computes with, found out without importing torch."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def device_kind() -> str:
    """Return "cuda" where torch could use an NVIDIA GPU, else "cpu"."""
    try:
        cpu_build = version("torch").endswith("+cpu")
    except PackageNotFoundError:
        cpu_build = True
    return "cuda" if not cpu_build and any(Path("/dev").glob("nvidia[0-9]*")) else "cpu"
