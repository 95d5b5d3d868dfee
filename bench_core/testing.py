"""Deprecated aliases of the names in `bench_authors.testing`, removed in the next release.

Using a name emits a DeprecationWarning, or raises PluginError if bench-authors is not installed.
"""

from warnings import warn

from bench_core.errors import Fault
from bench_core.optional import AUTHORS, optional_module


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    old = f"bench_core.testing.{name}"
    module = optional_module(AUTHORS, "testing", old)
    text: Fault = f"{old} is now bench_authors.testing.{name}; the next release removes the old name."
    warn(text, DeprecationWarning, stacklevel=2)
    return getattr(module, name)
