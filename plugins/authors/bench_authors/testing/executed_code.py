"""Finds code that stages of a suite execute although the key of their artifact does not cover it."""

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

MODULE = "<module>"  #: name of a module's code object
MADE_UP = "<"  #: prefix of file names that Python generates

_PERFORM = StageRunner.perform.__code__


@dataclass
class TracedExecution:
    """The code executed in stages."""

    stages: dict[str, Stage] = field(default_factory=dict)  # stages by key
    code: dict[str, dict[CodeType, str]] = field(default_factory=lambda: defaultdict(dict))  # key -> code -> module

    def definitions(self, key: str) -> dict[Definition, str]:
        """Return the executed definitions of a stage that may affect its results, each with one executed function."""
        functions = {}
        for code, module in self.code[key].items():
            for definition in _definitions(code_digests(), module, code):
                functions[definition] = code.co_qualname
        return functions

    def uncovered(self) -> dict[str, set[str]]:
        """Return executed functions that the key of the stage does not cover, with the kinds of stages."""
        digests, kinds = code_digests(), defaultdict[str, set[str]](set)
        for key, stage in self.stages.items():
            closure = frozenset[Definition]().union(*(digests.closure(roots) for roots in stage.roots.values()))
            for definition, function in self.definitions(key).items():
                if definition not in closure:
                    kinds[f"{definition.module}:{function}"].add(stage.kind)
        return dict(kinds)


def _definitions(digests: CodeDigests, module: str, code: CodeType) -> Iterator[Definition]:
    """Yield the definitions whose lines contain a code object; a statement may bind several names."""
    counts = is_followed(module) and module != __name__
    source = digests.code.module(module) if counts and code.co_filename[:1] != MADE_UP else None
    if source is None:
        return
    if code.co_name == MODULE:
        yield from [Definition(module, IMPORT)] if source.effects else []
        return
    if source.lazy and code.co_name == "__getattr__":
        return  # its imports are known from the imports for type checkers
    for name, statements in source.bound.items():
        for node in statements:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
            if first <= code.co_firstlineno <= (node.end_lineno or first):
                yield Definition(module, name)


@contextmanager
def recorded(execution: TracedExecution) -> Iterator[None]:
    """Record the code executed in the stages of this process."""
    perform = StageRunner.perform

    def perform_with_profile(self: StageRunner, stage: Stage, folder: Path) -> dict[str, Any]:
        seen, known = execution.code[stage.key], dict[int, CodeType]()  # by identity, because hashing code is slow

        def note(frame: FrameType, event: str, argument: object) -> None:
            if event == "call" and id(code := frame.f_code) not in known and not _is_importing(frame.f_back):
                known[id(code)] = code
                seen[code] = frame.f_globals.get("__name__", "")

        execution.stages[stage.key] = stage
        self.loaded.clear()  # as in a separate process
        gc.collect()  # finalize objects of other stages before this stage
        gc.freeze()  # limits the next collection to objects of this stage
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            return perform(self, stage, folder)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    StageRunner.perform = perform_with_profile  # type: ignore[method-assign]
    try:
        yield
    finally:
        gc.unfreeze()
        StageRunner.perform = perform  # type: ignore[method-assign]


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame is part of importing a module; the effects of imports are defined separately."""
    while frame is not None and (code := frame.f_code) is not _PERFORM:
        if code.co_name == MODULE:
            return True
        frame = frame.f_back
    return False


def uncovered_code(suite: str | Path, folder: Path, **options: Any) -> Mapping[str, set[str]]:
    """Run a suite; return executed functions that the key of a stage does not cover, with the kinds of stages.

    Results that depend on such a function would be reused after it changes. `options` are options of
    `bench_core.run`; `folder` receives store and runs.
    """
    execution = TracedExecution()
    with recorded(execution):
        run(suite, store=folder / "store", out=folder / "runs", workers=0, **options)
    return execution.uncovered()
