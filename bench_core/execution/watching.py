"""Configuration of `process_watch` for bench."""

import process_watch
from bench_core import entry_points
from bench_core.errors import PluginError
from bench_core.planning.code_digests import without_garbage_collection
from bench_core.registry import IN_SUITES, Part, parts
from bench_core.whose_code import PACKAGES

MAX_NAMES = 5  # limit for names in a message


class RefusedInput(PluginError, process_watch.Refused):
    """A stage read an input that cannot be read again."""


def install() -> None:
    """Observe this process from now on."""
    process_watch.install(HOST)


def _plugins() -> set[str]:
    return {entry.module.partition(".")[0] for entry in entry_points.declared(entry_points.PARTS)}


def _of_parts() -> set[str]:
    """Return the packages of parts that suites can name, except the core, which contains only toy parts."""
    return {part.package for kind in IN_SUITES for part in parts(kind).values()} - {"bench_core"}


def _registry() -> dict[str, dict[str, Part]]:
    return {kind: {**parts(kind)} for kind in IN_SUITES}


def _restore_registry(before: dict[str, dict[str, Part]]) -> None:
    for kind in IN_SUITES:
        parts(kind).clear()
        parts(kind).update(before[kind])


def _refuse(what: str, modules: str) -> RefusedInput:
    return RefusedInput(
        f"it read {what} (in {modules}), which cannot be read again. Read a file instead or, "
        "if settings determine the result, wrap the call in `with bench_core.reads():`."
    )


HOST = process_watch.Host(
    PACKAGES,
    plugins=_plugins,
    watched=_of_parts,
    settings=lambda: {"the registry": (_registry, _restore_registry)},
    refused=_refuse,
    comparing=without_garbage_collection,
)
