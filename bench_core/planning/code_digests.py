"""The digests of the code behind stages: of the function of each kind of stage, and of the parts that take part."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path

from bench_core.config import Config
from bench_core.files import digest
from bench_core.optional import AUTHORS, package
from bench_core.registry import installed, stage_kind, stage_kinds
from bench_core.whose_code import PACKAGES
from code_digests import Codebase, CodeDigests, Definition

ISOLATION = "bench_core.computing.isolation:isolated"  #: in which all kinds of stage execute

#: Modules that execute in stages and whose code is in no key, as they decide no result.
CARRYING: Mapping[str, str] = {
    f"{package(AUTHORS)}.looks": "refuses results that are others at a second look",
    "bench_core.commands": "the command line",
    "bench_core.computing.hidden_targets": "hides targets from decoders",
    "bench_core.computing.laws": "names the laws of results",
    "bench_core.computing.looks": "has results looked at twice",
    "bench_core.computing.context": "what stages have access to",
    "bench_core.computing.stage_runner": "calls the function of a kind of stage",
    "bench_core.entry_points": "finds distributions",
    "bench_core.execution": "sends requests, and starts processes",
    "bench_core.files": "digests files",
    "bench_core.hooks": "declares hooks",
    "bench_core.observed_inputs": "declares what stages read",
    "bench_core.whose_code": "says which packages are the core's",
    "bench_core.wrapped_readers": "tells of imports",
    "code_digests": "makes the digests of code",
    "process_watch": "observes what stages read and replace",
    "bench_core.optional": "says what to install",
    "bench_core.observer": "declares what observers hear of",
    "bench_core.planning": "makes keys, and puts paths in place of digests",
    "bench_core.registry": "finds parts by their names",
    "bench_core.runs": "writes and reads runs",
    "bench_core.storage.artifact": "writes and reads artifacts",
    "bench_core.storage.checkpoints": "finds checkpoints",
    "bench_core.storage.code_listings": "writes and reads listings of code",
    "bench_core.storage.contents": "lists the files of artifacts",
    "bench_core.storage.costs": "remembers what stages cost",
    "input_digests": "compares what stages have read",
    "bench_core.storage.file_formats": "refuses damaged files",
    "bench_core.storage.locks": "waits for other processes",
    "bench_core.storage.store": "finds artifacts",
    "bench_core.stage_kinds": "says which function performs a stage",
    "bench_core.terminal": "prints",
}

#: Libraries whose version decides no result: settings are in keys as they are validated, files by their digests.
CARRYING_LIBRARIES = frozenset({"pluggy", "pooch", "pydantic", "ruamel.yaml", "safetensors", "typing_extensions"})

#: What looks up a definition by a computed name: one of a root of the stage.
LOOKUPS = ("bench_core.computing.part_class:_loaded", "bench_core.config:Config")

#: Files beside modules that decide nothing: for type checkers, and for people.
NO_DATA = frozenset({"py.typed", "citations.bib"})


def is_followed(module: str) -> bool:
    """Return whether the code of a module of ours counts."""
    return not any(f"{module}.".startswith(f"{one}.") for one in carrying())


def carrying() -> dict[str, str]:
    """Return the modules that execute in stages and whose code is in no key, each with the reason."""
    return dict(CARRYING) | {name: why for kind in stage_kinds().values() for name, why in kind.carrying.items()}


def code_digests() -> CodeDigests:
    """Return the digests of the core, of all plugins, and of what is not installed in site-packages."""
    plugins = installed().manager.list_name_plugin()
    return _code_digests(
        tuple(sorted({str(getattr(module, "__name__", "")) for _, module in plugins if module is not None}))
    )


@cache
def _code_digests(plugins: tuple[str, ...]) -> CodeDigests:
    own = {*PACKAGES, *(name.partition(".")[0] for name in plugins)}
    names = chain(LOOKUPS, *(kind.lookups for kind in stage_kinds().values()))
    lookups = frozenset(Definition(*one.split(":")) for one in names)
    code = Codebase(
        cache(is_followed), frozenset(own), frozenset(PACKAGES), content=_content_digest, no_data=NO_DATA,
        lookups=lookups, always=plugins,
    )  # fmt: skip
    return CodeDigests(code, CARRYING_LIBRARIES)


def stage_digests(roots: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the digest of all that takes part in a stage, given their roots: its own function, and parts."""
    with without_garbage_collection():
        return code_digests().of_parts(roots)


#: Files of data beside modules -> their digests when they were first read, which are in keys.
content_digests: dict[str, str] = {}


def _content_digest(path: Path) -> str:
    found = digest(path)
    content_digests.setdefault(str(path), found)
    return found


def forget_code() -> None:
    """Read sources again for the next digest, for tests that edit these."""
    _code_digests.cache_clear()
    content_digests.clear()


def roots_of(config: type[Config]) -> tuple[str, ...]:
    """Return the roots of a part: its Config, and the class that this builds."""
    roots = [f"{config.__module__}:{config.__qualname__}"]
    target = getattr(config, "target", "")
    return tuple([*roots, target] if target else roots)


def roots_of_stage(kind: str) -> tuple[str, ...]:
    """Return the roots of a kind of stage."""
    return stage_kind(kind).function, ISOLATION


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not look for garbage among many small objects that all stay, such as syntax trees."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.freeze()
            gc.unfreeze()  # which makes all objects old: none of them is looked at now
            gc.enable()
