"""Modules of distributions that may be missing: imported by name, or an error with the command that installs them."""

from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType

AUTHORS = "bench-authors"  #: contracts, and commands for authors of plugins
NOTEBOOK = "bench-notebook"  #: use from Python
REPORTS = "bench-reports"  #: reports, and what they say of claims
UPKEEP = "bench-upkeep"  #: what runs would cost, and what is kept
TRAINING = "bench-training"  #: what gives models their weights

#: Keys of suites that a distribution of ours reads.
SECTIONS = dict.fromkeys(("tables", "figures", "claims", "choose"), REPORTS)


def source(distribution: str) -> str:
    """Return the name of a distribution of this repository, with the command that installs it."""
    return f"{distribution} (in a checkout: pip install ./plugins/{distribution.removeprefix('bench-')})"


def is_installed(distribution: str) -> bool:
    """Return whether a distribution of this repository is installed."""
    return find_spec(package(distribution)) is not None


def optional_module(distribution: str, module: str, needed_by: str) -> ModuleType:
    """Return a module, or the package, of a distribution of ours; raise PluginError if that is not installed."""
    from bench_core.errors import PluginError

    if not is_installed(distribution):
        raise PluginError(f"{needed_by} comes with {source(distribution)}, which is not installed.")
    _check_release(distribution)
    return import_module(f"{package(distribution)}.{module}".rstrip("."))


def installed_module(distribution: str, module: str) -> ModuleType | None:
    """Return a module of a distribution of ours, or None if that is not installed."""
    if not is_installed(distribution):
        return None
    _check_release(distribution)
    return import_module(f"{package(distribution)}.{module}")


@cache  # metadata are files, and this is asked often
def _check_release(distribution: str) -> None:
    """Raise PluginError if a distribution of ours is of another release than the core, whose modules it may lack."""
    from bench_core.errors import PluginError

    core, other = version("bench-core"), version(distribution)
    if core != other:
        raise PluginError(
            f"{distribution} {other} does not go with bench-core {core}. Install the same release of both."
        )


def package(distribution: str) -> str:
    """Return the name by which a distribution of ours is imported."""
    return distribution.replace("-", "_")
