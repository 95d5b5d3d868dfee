"""Evaluates parts that are given as objects, as in a notebook, by the engine that runs suites."""

import shutil
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Any

from bench_core.errors import SuiteError
from bench_core.execution.executor import Here
from bench_core.execution.progress import Progress
from bench_core.files import data_folder
from bench_core.optional import AUTHORS, installed_module
from bench_core.planning.code_digests import code_digests
from bench_core.planning.cost_keys import CostKeys
from bench_core.planning.plan import Plan, plan
from bench_core.registry import extra
from bench_core.runs.results import Run
from bench_core.runs.runner import Runner
from bench_core.storage.code_listings import remove_listing
from bench_core.storage.costs import Costs
from bench_core.storage.store import Store
from bench_core.suites.check import ADVICE, report_misfits
from bench_core.suites.load import examine
from bench_core.suites.suite import Suite
from bench_notebook.adhoc_parts import AdHocParts
from bench_notebook.arguments import SUITE, Arguments, Reader

_RUNNING = Lock()


def evaluate(
    *,
    model: Any = None,
    models: Any = None,
    task: Any = None,
    tasks: Any = None,
    decoders: Any = (),
    metrics: Any = (),
    training: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 1,
    splits: str | Sequence[str] = ("test",),
    limits: Mapping[str, Any] | None = None,
    hardware: Mapping[str, Any] | None = None,
    data: str | Path | None = None,
    store: str | Path = ".bench/store",
    out: str | Path | None = None,
) -> Run:
    """Evaluate models on tasks, without a suite file or a distribution; return the run, which a notebook shows.

    Parts are given one by one, as a list, or as a mapping of names to parts. Each is a Config, the name of an
    installed part, its settings as in a suite file, or a class or object that implements its interface. A class of a
    model is trained; a module is evaluated with the weights that it has, and is not changed. A model may also be a
    function of a list of prompts that returns a text for each, which is measured as it is, and a metric a function of
    an output and the list of its references that returns a number: the mean over examples is reported, and higher is
    better unless the function has an attribute `better` of -1 or 0. `training`, `seeds`, `splits`, `limits` and
    `hardware` are as in suite files.

    All stages run in this process. What is computed with installed parts alone is kept in `store`, as by `bench run`.
    What is computed with others never is: their code may change from call to call. The run is written to the folder
    `out`; without one it is gone with the object that is returned.

    Raises SuiteError with everything that is wrong with the arguments. Cells that fail are marked in the run.
    """
    with _alone():
        reader = Reader(AdHocParts())
        reader.one_of("model", model, models)
        reader.one_of("task", task, tasks)
        reader.parts("decoder", "decoders", () if decoders is None else decoders)
        reader.add_decoder_of_functions()
        reader.parts("metric", "metrics", () if metrics is None else metrics)
        splits = [splits] if isinstance(splits, str) else splits
        others = {"training": training, "seeds": seeds, "splits": splits, "limits": limits, "hardware": hardware}
        for name, value in others.items():
            reader.put(name, value)
        return _evaluated(reader.source, reader.adhoc, data_folder(Path(data) if data else None), Path(store), out)


def _evaluated(source: Arguments, adhoc: AdHocParts, data: Path, store: Path, out: str | Path | None) -> Run:
    """Run what arguments describe."""
    scratch = Path(mkdtemp(prefix="bench-"))
    run: Run | None = None
    try:
        with extra(adhoc.plugin()):
            suite = _suite(source, scratch, data)
            planned = plan(suite, data)
            changed = _changed_sources()
            kept = Store(scratch / "store" if changed else store, _warn)
            if changed:
                _warn(f"{changed[0]} changed since Python was started: nothing of this call is kept. Restart it.")
            with _forgetting(kept, planned, adhoc), Here(kept, data) as executor:
                run = Runner(suite, data, kept, executor, _Warnings()).run(Path(out or scratch / "runs"))
    finally:
        shutil.rmtree(scratch / "store", ignore_errors=True)
        if run is None or out is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    if out is None:
        weakref.finalize(run, shutil.rmtree, scratch, ignore_errors=True)
    return run


def _suite(source: Arguments, folder: Path, data: Path) -> Suite:
    """Return the suite that arguments describe; raise SuiteError with all that is wrong with them."""
    source.data = {"suite": SUITE, **source.data}
    suite, problems = examine(source, folder)
    report_misfits(suite, problems)
    # What a suite file could do about incompatible parts is no advice here.
    problems.found[:] = [one.replace(ADVICE, "Choose another part.") for one in problems.found]
    if checks := installed_module(AUTHORS, "suite_checks"):
        checks.report_unavailable(suite, data, problems)
    if problems.found:
        raise SuiteError(problems.text())
    return suite


@contextmanager
def _alone() -> Iterator[None]:
    """Raise SuiteError if another evaluation is under way in this process, whose state stages define."""
    if not _RUNNING.acquire(blocking=False):
        raise SuiteError("evaluate: another evaluation is under way in this process. Wait until it has ended.")
    try:
        yield
    finally:
        _RUNNING.release()


@contextmanager
def _forgetting(store: Store, planned: Plan, adhoc: AdHocParts) -> Iterator[None]:
    """Remove what stages leave that parts of this call alone take part in, as nothing will ever look for it."""
    try:
        yield
    finally:
        theirs, costs = set[str](), CostKeys(planned.stages)
        for stage in planned.stages.values():
            if adhoc.is_behind(stage.roots.values()) or any(key in theirs for _, key in stage.inputs.values()):
                theirs.add(stage.key)
                store.remove(stage.kind, stage.key)
                Costs(store).remove(costs.of_record(stage))
            for name, roots in stage.roots.items():
                if adhoc.is_behind([roots]):
                    remove_listing(store, stage.code[name])


def _changed_sources() -> list[Path]:
    """Return the files of code that this process may have loaded before they changed: keys would name other code."""
    return [path for path in code_digests().code.files() if path.stat().st_mtime > _begun()]


def _begun() -> float:
    """Return when this process began, in seconds since 1970."""
    from psutil import Process

    return float(Process().create_time())


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)


class _Warnings(Progress):
    """Says nothing but warnings."""

    def warn(self, text: str) -> None:
        _warn(text)
