"""Imports from optional distributions of this repository, with errors that name the command to install them."""

from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType

from bench_core.errors import PluginError

AUTHORS = "bench-authors"  #: contracts and commands for plugin authors
NOTEBOOK = "bench-notebook"  #: use of bench from Python
REPORTS = "bench-reports"  #: reports and verdicts on claims
UPKEEP = "bench-upkeep"  #: cost estimates and maintenance of the store
TRAINING = "bench-training"  #: training of models

#: Keys of suites, by the distribution that reads them.
SECTIONS = dict.fromkeys(("tables", "figures", "claims", "choose"), REPORTS)


def source(distribution: str) -> str:
    """Return the name of a distribution of this repository, followed by the command to install it."""
    return f"{distribution} (in a checkout: pip install ./plugins/{distribution.removeprefix('bench-')})"


def is_installed(distribution: str) -> bool:
    """Return whether a distribution of this repository is installed."""
    return find_spec(package(distribution)) is not None


def optional_module(distribution: str, module: str, needed_by: str) -> ModuleType:
    """Import a module of a distribution of this repository or, if `module` is empty, its package.

    Raises PluginError if the distribution is not installed or its release differs from the core's.
    """
    if not is_installed(distribution):
        raise PluginError(f"{needed_by} comes with {source(distribution)}, which is not installed.")
    _check_release(distribution)
    return import_module(f"{package(distribution)}.{module}".rstrip("."))


def installed_module(distribution: str, module: str) -> ModuleType | None:
    """Import a module of a distribution of this repository; return None if the distribution is not installed."""
    return optional_module(distribution, module, module) if is_installed(distribution) else None


@cache  # called often, and reads metadata files
def _check_release(distribution: str) -> None:
    """Raise PluginError if the release of a distribution of this repository differs from the core's."""
    core, other = version("bench-core"), version(distribution)
    if core != other:
        conflict = f"{distribution} {other} is incompatible with bench-core {core}."
        raise PluginError(f"{conflict} Install the same release of both.")


def package(distribution: str) -> str:
    """Return the import name of a distribution of this repository."""
    return distribution.replace("-", "_")
