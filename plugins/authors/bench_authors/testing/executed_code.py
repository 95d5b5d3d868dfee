"""Finds code that executes in a stage of a suite and is not in the key of its artifact."""

import gc
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from bench_core.computing.stage_runner import StageRunner
from bench_core.planning.code_digests import code_digests, is_followed
from bench_core.planning.stages import Stage
from bench_core.runs.runner import run
from code_digests import IMPORT, CodeDigests, Definition

MODULE = "<module>"  #: the name of the code of a module
MADE_UP = "<"  #: how the names of files begin that Python makes up

_PERFORM = StageRunner.perform.__code__


@dataclass
class Execution:
    """The code that executed in the stages of some suites."""

    stages: dict[str, Stage] = field(default_factory=dict)  # by key
    code: dict[str, dict[CodeType, str]] = field(default_factory=lambda: defaultdict(dict))  # key -> code -> module

    def definitions(self, key: str) -> dict[Definition, str]:
        """Return the definitions that executed in a stage and may decide its results, each with a function of it."""
        found = {}
        for code, module in self.code[key].items():
            for definition in _definitions(code_digests(), module, code):
                found[definition] = code.co_qualname
        return found

    def uncovered(self) -> dict[str, set[str]]:
        """Return the functions that are not in the key of a stage in which they executed, with the kinds of stage."""
        digests, found = code_digests(), defaultdict[str, set[str]](set)
        for key, stage in self.stages.items():
            closure = frozenset[Definition]().union(*(digests.closure(roots) for roots in stage.roots.values()))
            for definition, function in self.definitions(key).items():
                if definition not in closure:
                    found[f"{definition.module}:{function}"].add(stage.kind)
        return dict(found)


def _definitions(digests: CodeDigests, module: str, code: CodeType) -> Iterator[Definition]:
    """Yield the definitions of which a code object is a part, by its line: one, or those that one statement binds."""
    counts = is_followed(module) and module != __name__
    source = digests.code.module(module) if counts and code.co_filename[:1] != MADE_UP else None
    if source is None:
        return
    if code.co_name == MODULE:
        yield from [Definition(module, IMPORT)] if source.effects else []
        return
    if source.lazy and code.co_name == "__getattr__":
        return  # what it imports is followed from the imports for type checkers
    for name, statements in source.bound.items():
        for one in statements:
            first = min([one.lineno, *(decorator.lineno for decorator in getattr(one, "decorator_list", ()))])
            if first <= code.co_firstlineno <= (one.end_lineno or first):
                yield Definition(module, name)


@contextmanager
def recorded(execution: Execution) -> Iterator[None]:
    """Record the code that executes in the stages that this process performs."""
    perform = StageRunner.perform

    def traced(self: StageRunner, stage: Stage, folder: Path) -> dict[str, Any]:
        seen, known = execution.code[stage.key], dict[int, CodeType]()  # by identity, as hashes of code take long

        def note(frame: FrameType, event: str, argument: object) -> None:
            if event == "call" and id(code := frame.f_code) not in known and not _is_importing(frame.f_back):
                known[id(code)] = code
                seen[code] = frame.f_globals.get("__name__", "")

        execution.stages[stage.key] = stage
        self.loaded.clear()  # as in a process of its own
        gc.collect()  # what is left of other stages ends now, not in this one
        gc.freeze()  # so that the next collection looks at what this stage leaves alone
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            return perform(self, stage, folder)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    StageRunner.perform = traced  # type: ignore[method-assign]
    try:
        yield
    finally:
        gc.unfreeze()
        StageRunner.perform = perform  # type: ignore[method-assign]


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame is inside of the import of a module, whose effects are a definition of their own."""
    while frame is not None and (code := frame.f_code) is not _PERFORM:
        if code.co_name == MODULE:
            return True
        frame = frame.f_back
    return False


def uncovered_code(suite: str | Path, folder: Path, **options: Any) -> Mapping[str, set[str]]:
    """Run a suite; return each function that executes in a stage and is not in its key, with the kinds of stage.

    Results that depend on such a function would be reused after a change of it. `options` are those of
    `bench_core.run`; store and runs are put into `folder`.
    """
    execution = Execution()
    with recorded(execution):
        run(suite, store=folder / "store", out=folder / "runs", workers=0, **options)
    return execution.uncovered()
