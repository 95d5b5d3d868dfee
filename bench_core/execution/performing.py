"""Performs a stage in this process: watches code, observes inputs, stores the artifact."""

import platform
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from bench_core.computing.context import Inputs
from bench_core.computing.stage_runner import StageRunner, work_of
from bench_core.errors import BenchError, PluginError, Stopped, StoreError
from bench_core.execution.failures import StageFailed, raised_at, time_up
from bench_core.execution.progress import WAITING
from bench_core.execution.stage_costs import measure_cost, record, total
from bench_core.execution.undeclared import abridged, digests, refusal, undeclared, warning, with_earlier
from bench_core.execution.watching import MAX_NAMES, install
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import code_digests
from bench_core.planning.hardware import environment
from bench_core.planning.path_settings import placed, unchanged
from bench_core.planning.stage_code import changed_code, code_modules, meaning_of
from bench_core.planning.stages import Stage, StageRequest
from bench_core.registry import configured
from bench_core.stage_kinds import call
from bench_core.storage.code_listings import write_listing
from bench_core.storage.costs import Costs
from input_digests import changed, united
from process_watch import Input, Reading, Watch, observe, reads, remember

WATCH = Watch()  #: watches the code of this process


def check_same(stage: Stage) -> None:
    """Raise StageFailed unless code and libraries are the same as when the run was planned.

    Otherwise, results of different code (on another machine, or after an edit) would be stored under the stage's key.
    """
    differing = [f"the code of {name}" for name in changed_code(stage.code, stage.roots, stage.settings)]
    for name, version in stage.libraries.items():
        differing += [] if keys.library(name) == version else [f"{name} ({keys.library(name)}, not {version})"]
    if differing:
        raise StageFailed(
            f"on {platform.node()}, the following differs from the start of the run: {', '.join(differing)}. "
            "Install the same versions on all machines and run the suite again.",
            expected=True,
            elsewhere=True,
        )


def perform(runner: StageRunner, request: StageRequest) -> None:
    """Perform a stage and store its artifact, or only build its model, as requested; raise StageFailed on errors."""
    with meaning_of(request.stage):
        _perform(runner, request)


def _perform(runner: StageRunner, request: StageRequest) -> None:
    stage, runner.request = request.stage, request
    try:
        if request.build:
            with _check_unchanged(stage, runner.data), _watch(runner, stage), _remembering(runner, stage) as inputs:
                observe(lambda: runner.build(stage), inputs, runner.home, runner.store.root)
        elif request.calibrate is not None:
            seconds = request.calibrate
            with _check_unchanged(stage, runner.data), _watch(runner, stage), _remembering(runner, stage) as inputs:
                speed = observe(lambda: runner.calibrate(stage, seconds), inputs, runner.home, runner.store.root)
                Costs(runner.store).write(request.cost_key, speed)
        elif request.again is not None:
            if request.same_code:
                check_same(stage)
            with _watch(runner, stage):
                runner.perform(stage, Path(request.again))
        else:
            _make(runner, request)
    except Stopped:
        raise time_up() from None
    except StageFailed:
        raise
    except Exception as error:  # plugins may raise any error
        is_ours = isinstance(error, BenchError)
        text = str(error) if is_ours else f"{type(error).__name__}: {error}{raised_at(error)}"
        details = "".join(traceback.format_exception(error))
        raise StageFailed(text, details, is_ours, isinstance(error, StoreError)) from None


def _check_unchanged(stage: Stage, data: Path) -> AbstractContextManager[None]:
    """Raise DataError before or after the block if files of the stage have changed since planning."""
    places, reads, task = stage.places, {}, None
    if stage.about.first:
        task, reads = configured("task", placed(stage.settings["task"], places)), stage.settings.get("data", {})
    return unchanged(places, task, reads, data)


def _make(runner: StageRunner, request: StageRequest) -> None:
    """Compute and store the artifact of a stage, unless another run has stored it."""
    stage = request.stage
    store, about = runner.store, {"label": stage.label, "ingredients": stage.ingredients}
    with store.lock(stage.kind, stage.key, lambda: runner.tell(WAITING, 0.0)):
        if store.has(stage.kind, stage.key):
            if not (names := store.changed_inputs(stage.kind, stage.key)):
                return
            store.warn(f"{stage.kind} of {stage.label} is computed again because {', '.join(names)} changed.")
            store.set_aside(stage.kind, stage.key)
        for name, digest in stage.code.items():
            write_listing(store, digest, partial(code_digests().listing, stage.roots[name]))
        with store.writing(stage.kind, stage.key, about) as folder:
            with (
                _watch(runner, stage),
                _check_unchanged(stage, runner.data),
                _remembering(runner, stage) as inputs,
                measure_cost() as cost,
            ):
                runner.earlier, runner.inputs = {}, partial(_all_inputs, runner, request, inputs, warn=False)
                counts = observe(lambda: runner.perform(stage, folder), inputs, runner.home, store.root, folder)
            about["provenance"] = environment(stage.settings)
            about["observed"] = _all_inputs(runner, request, inputs)
            about["cost"] = spent = total(cost, counts)
        record(store, request, spent)
        if stage.about.stored:
            call(stage.about.stored, store, stage)


@contextmanager
def _watch(runner: StageRunner, stage: Stage) -> Iterator[None]:
    """Restore code and settings of the process after the block; raise StageFailed if the block replaced code."""
    install()
    work_of(stage.about)  # imports torch, if the stage needs it
    observed = runner.request is not None and runner.request.observed
    WATCH.lenient = not WATCH.exclusive and (observed or WATCH.hosted)
    WATCH.begin()
    if remains := [*WATCH.lost, *(f"the thread {name}" for name in WATCH.threads.left.values())]:
        raise StageFailed(
            f"earlier stages left changes in this process that may affect results: {', '.join(remains[:MAX_NAMES])}."
            " Run with --workers 1, which restarts the process after such stages.",
            expected=True,
        )
    failure, modules = "", code_modules(stage)
    try:
        yield
    except Exception as error:
        failure = f" The stage also failed with {type(error).__name__}: {error}"
        raise
    finally:
        _end_watch(runner, modules, failure)


def _end_watch(runner: StageRunner, modules: Collection[str], failure: str) -> None:
    """Compare and restore code and settings; warn about restored settings, raise StageFailed for replaced code."""
    try:
        names, restored, lingering = WATCH.end(modules)
        WATCH.spoilt = WATCH.spoilt or bool(names or lingering or WATCH.lost)
    except BaseException:
        WATCH.spoilt = True
        WATCH.lost.append("code that could not be compared")
        raise
    if restored:
        runner.warn(f"it changed {', '.join(restored)}, restored before the next stage.")
    if lingering:
        fate = "so its process ends" if WATCH.exclusive else "and other stages fail until they end: use --workers 1"
        runner.warn(f"it left threads running ({', '.join(lingering)}), {fate}.")
    if names:
        _forget_results()
        raise StageFailed(
            f"it replaced {abridged(names)}, which other stages also use. Nothing was "
            f"stored. A part must modify only its own objects, or restore replaced code.{failure}",
            expected=True,
        )


def _forget_results() -> None:
    """Clear caches of functions, because replaced code may have filled them."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("bench_core.computing") or name.partition(".")[0] in WATCH.packages:
            for value in [*vars(module).values()]:
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


@contextmanager
def _remembering(runner: StageRunner, stage: Stage) -> Iterator[dict[Input, Reading]]:
    """Yield a mapping for the inputs of a stage; afterwards, reduce it to undeclared inputs and remember them."""
    inputs: dict[Input, Reading] = {}
    try:
        yield inputs
    finally:
        reduced = undeclared(stage, {**inputs}, runner.data)
        inputs.clear()
        inputs.update(reduced)
        remember(reduced)


def _all_inputs(
    runner: StageRunner, request: StageRequest, observed: Mapping[Input, Reading], warn: bool = True
) -> Inputs:
    """Return the undeclared inputs so far of a stage, of its input artifacts, and of the training run it resumes."""
    stage = request.stage
    with reads():  # files that the core reads are not inputs of the stage
        inputs = with_earlier(stage, undeclared(stage, {**observed}, runner.data), runner.data)
        if why := refusal(inputs, request.strict):
            raise StageFailed(why, expected=True)
        new = digests(inputs)
        if (text := warning(inputs)) and warn:
            runner.warn(text)
        before = [runner.store.find(*key).manifest.get("observed", {}) for key in stage.inputs.values()]
        modified = changed(runner.earlier)
    if modified:
        text = f"{abridged(modified)}: changed after the training run had read it, so nothing was stored."
        raise PluginError(f"{text} Run the suite again.")
    return united([*before, runner.earlier, new])
