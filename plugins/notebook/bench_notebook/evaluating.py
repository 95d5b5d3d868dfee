"""Evaluates parts passed as objects, e.g. in a notebook, with the engine that runs suites."""

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
from bench_core.execution.executor import InProcess
from bench_core.execution.progress import ProgressDisplay
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
from bench_notebook.arguments import SUITE, ArgumentReader, Arguments

_LOCK = Lock()


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
    """Evaluate models on tasks without a suite file or a plugin; return the run, which notebooks display.

    Pass parts singly, as a list, or as a mapping of names to parts. Each is a Config, the name of an installed part,
    its settings as in a suite file, or a class or object that implements its interface. A model class is trained; a
    module is evaluated with its current weights and is not modified. A model may also be a function that returns a
    text for each prompt of a list; it is not trained. A metric may be a function of an output and the list of its
    references that returns a number: its mean over examples is reported, and higher is better unless the function's
    attribute `better` is -1 (lower) or 0 (neither). `training`, `seeds`, `splits`, `limits` and `hardware` are as in
    suite files.

    All stages run in this process. Results of installed parts are cached in `store`, as by `bench run`. Results of
    other parts are not cached, because their code may change between calls. The run is written to the folder `out`;
    without `out`, it is deleted together with the returned object.

    Raises SuiteError listing all problems with the arguments. Failed cells are marked in the run.
    """
    with _exclusive():
        reader = ArgumentReader(AdHocParts())
        reader.either("model", model, models)
        reader.either("task", task, tasks)
        reader.parts("decoder", "decoders", () if decoders is None else decoders)
        reader.add_decoder_of_functions()
        reader.parts("metric", "metrics", () if metrics is None else metrics)
        splits = [splits] if isinstance(splits, str) else splits
        settings = {"training": training, "seeds": seeds, "splits": splits, "limits": limits, "hardware": hardware}
        for name, value in settings.items():
            reader.put(name, value)
        return _run_suite(reader.source, reader.adhoc, data_folder(Path(data) if data else None), Path(store), out)


def _run_suite(source: Arguments, adhoc: AdHocParts, data: Path, store: Path, out: str | Path | None) -> Run:
    """Run the suite that the arguments describe."""
    scratch = Path(mkdtemp(prefix="bench-"))
    run: Run | None = None
    try:
        with extra(adhoc.plugin()):
            suite = _suite(source, scratch, data)
            planned = plan(suite, data)
            changed = _changed_sources()
            result_store = Store(scratch / "store" if changed else store, _warn)
            if changed:
                _warn(
                    f"{changed[0]} changed since Python started: results of this call are not cached. Restart Python."
                )
            with _removing_adhoc_results(result_store, planned, adhoc), InProcess(result_store, data) as executor:
                run = Runner(suite, data, result_store, executor, _Warnings()).run(Path(out or scratch / "runs"))
    finally:
        shutil.rmtree(scratch / "store", ignore_errors=True)
        if run is None or out is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    if out is None:
        weakref.finalize(run, shutil.rmtree, scratch, ignore_errors=True)
    return run


def _suite(source: Arguments, folder: Path, data: Path) -> Suite:
    """Return the suite that the arguments describe; raise SuiteError listing all their problems."""
    source.data = {"suite": SUITE, **source.data}
    suite, problems = examine(source, folder)
    report_misfits(suite, problems)
    # The advice on incompatible parts is for suite files only.
    problems.messages[:] = [problem.replace(ADVICE, "Choose another part.") for problem in problems.messages]
    if checks := installed_module(AUTHORS, "suite_checks"):
        checks.report_unavailable(suite, data, problems)
    if problems.messages:
        raise SuiteError(problems.text())
    return suite


@contextmanager
def _exclusive() -> Iterator[None]:
    """Raise SuiteError if another evaluation runs in this process, because stages set the state of the process."""
    if not _LOCK.acquire(blocking=False):
        raise SuiteError("evaluate: another evaluation is running in this process. Wait until it ends.")
    try:
        yield
    finally:
        _LOCK.release()


@contextmanager
def _removing_adhoc_results(store: Store, planned: Plan, adhoc: AdHocParts) -> Iterator[None]:
    """On exit, remove the artifacts of stages that used ad-hoc parts, which no later call can reuse."""
    try:
        yield
    finally:
        removed_keys, costs = set[str](), CostKeys(planned.stages)
        for stage in planned.stages.values():
            if adhoc.is_behind(stage.roots.values()) or any(key in removed_keys for _, key in stage.inputs.values()):
                removed_keys.add(stage.key)
                store.remove(stage.kind, stage.key)
                Costs(store).remove(costs.of_record(stage))
            for name, roots in stage.roots.items():
                if adhoc.is_behind([roots]):
                    remove_listing(store, stage.code[name])


def _changed_sources() -> list[Path]:
    """Return code files that changed after this process started and may therefore differ from the loaded code."""
    return [path for path in code_digests().code.files() if path.stat().st_mtime > _process_start()]


def _process_start() -> float:
    """Return the start time of this process in seconds since 1970."""
    from psutil import Process

    return float(Process().create_time())


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)


class _Warnings(ProgressDisplay):
    """Prints only warnings."""

    def warn(self, text: str) -> None:
        _warn(text)
