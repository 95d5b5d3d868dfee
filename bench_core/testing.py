"""The names of `bench_authors.testing`, for one release: import them from there.

A name that is used raises a DeprecationWarning, or PluginError where bench-authors is not installed.
"""

from warnings import warn

from bench_core.optional import AUTHORS, optional_module


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = optional_module(AUTHORS, "testing", f"bench_core.testing.{name}")
    warn(
        f"bench_core.testing.{name} is now bench_authors.testing.{name}; the old name goes with the next release.",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(module, name)
