"""Modules of distributions that may be missing: imported by name, or an error with the command that installs them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

AUTHORS = "bench-authors"  #: contracts, and commands for authors of plugins


def source(distribution: str) -> str:
    """Return the name of a distribution of this repository, with the command that installs it."""
    return f"{distribution} (in a checkout: pip install ./plugins/{distribution.removeprefix('bench-')})"


def is_installed(distribution: str) -> bool:
    """Return whether a distribution of this repository is installed."""
    return find_spec(_package(distribution)) is not None


def optional_module(distribution: str, module: str, needed_by: str) -> ModuleType:
    """Return a module of a distribution of this repository; raise PluginError if that is not installed."""
    from bench_core.errors import PluginError

    if not is_installed(distribution):
        raise PluginError(f"{needed_by} comes with {source(distribution)}, which is not installed.")
    return import_module(f"{_package(distribution)}.{module}")


def _package(distribution: str) -> str:
    return distribution.replace("-", "_")
