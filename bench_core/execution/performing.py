"""Performs a stage in this process: its code is watched, its inputs are observed, its artifact is stored."""

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
from bench_core.execution.failures import StageFailed, time_up
from bench_core.execution.progress import WAITING
from bench_core.execution.raised_at import raised_at
from bench_core.execution.stage_costs import measured, record, total
from bench_core.execution.undeclared import (
    abridged,
    code_modules,
    digests,
    refusal,
    undeclared,
    warning,
    with_earlier,
)
from bench_core.execution.watching import SHOWN, install
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import code_digests
from bench_core.planning.hardware import environment
from bench_core.planning.path_settings import placed, unchanged
from bench_core.planning.stage_code import changed_code, meaning_of
from bench_core.planning.stages import Stage, StageRequest
from bench_core.registry import configured
from bench_core.stage_kinds import call
from bench_core.storage.code_listings import write_listing
from bench_core.storage.costs import Costs
from input_digests import changed, united
from process_watch import Input, Reading, Watch, observe, reads, remember

WATCH = Watch()  #: over the code of this process


def check_same(stage: Stage) -> None:
    """Raise StageFailed unless code and libraries are the same as where the run was planned.

    Otherwise results of other code, on another machine or after an edit, would be stored under its key.
    """
    differing = [f"the code of {name}" for name in changed_code(stage.code, stage.roots, stage.settings)]
    for name, version in stage.libraries.items():
        differing += [] if keys.library(name) == version else [f"{name} ({keys.library(name)}, not {version})"]
    if differing:
        raise StageFailed(
            f"{', '.join(differing)}: not the same on {platform.node()} as where the run began, or changed since. "
            "Install the same versions on every machine, and run the suite again.",
            expected=True,
            elsewhere=True,
        )


def perform(runner: StageRunner, request: StageRequest) -> None:
    """Perform a stage and store its artifact, or only build its model; raise StageFailed on any error."""
    with meaning_of(request.stage):
        _perform(runner, request)


def _perform(runner: StageRunner, request: StageRequest) -> None:
    stage, runner.request = request.stage, request
    try:
        if request.build:
            with _unchanged(stage, runner.data), _watched(runner, stage), _remembering(runner, stage) as found:
                observe(lambda: runner.build(stage), found, runner.home, runner.store.root)
        elif request.calibrate is not None:
            seconds = request.calibrate
            with _unchanged(stage, runner.data), _watched(runner, stage), _remembering(runner, stage) as found:
                speed = observe(lambda: runner.calibrate(stage, seconds), found, runner.home, runner.store.root)
                Costs(runner.store).write(request.cost_key, speed)
        elif request.again is not None:
            if request.same_code:
                check_same(stage)
            with _watched(runner, stage):
                runner.perform(stage, Path(request.again))
        else:
            _make(runner, request)
    except Stopped:
        raise time_up() from None
    except StageFailed:
        raise
    except Exception as error:  # whatever a plugin raises
        known = isinstance(error, BenchError)
        text = str(error) if known else f"{type(error).__name__}: {error}{raised_at(error)}"
        details = "".join(traceback.format_exception(error))
        raise StageFailed(text, details, known, isinstance(error, StoreError)) from None


def _unchanged(stage: Stage, data: Path) -> AbstractContextManager[None]:
    """Raise DataError unless all files that a stage reads are the planned ones, before and after."""
    places, reads, task = stage.places, {}, None
    if stage.about.first:
        task, reads = configured("task", placed(stage.settings["task"], places)), stage.settings.get("data", {})
    return unchanged(places, task, reads, data)


def _make(runner: StageRunner, request: StageRequest) -> None:
    """Compute and store the artifact of a stage, unless another run already did."""
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
                _watched(runner, stage),
                _unchanged(stage, runner.data),
                _remembering(runner, stage) as found,
                measured() as cost,
            ):
                runner.earlier, runner.inputs = {}, partial(_observed, runner, request, found, tell=False)
                counts = observe(lambda: runner.perform(stage, folder), found, runner.home, store.root, folder)
            about["provenance"] = environment(stage.settings)
            about["observed"] = _observed(runner, request, found)
            about["cost"] = spent = total(cost, counts)
        record(store, request, spent)
        if stage.about.stored:
            call(stage.about.stored, store, stage)


@contextmanager
def _watched(runner: StageRunner, stage: Stage) -> Iterator[None]:
    """Raise StageFailed after the block if it replaced code; restore the code and the settings of the process."""
    install()
    work_of(stage.about)  # with torch, if it computes with that
    observed = runner.request is not None and runner.request.observed
    WATCH.lenient = not WATCH.exclusive and (observed or WATCH.hosted)
    WATCH.begin()
    if remains := [*WATCH.lost, *(f"the thread {name}" for name in WATCH.threads.left.values())]:
        raise StageFailed(
            f"an earlier stage left changes in this process that may affect results: {', '.join(remains[:SHOWN])}. "
            "Run with --workers 1, which ends the process after such a stage.",
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
    """Compare and restore code and settings; warn of what was restored, raise StageFailed if code was replaced."""
    try:
        names, restored, lingering = WATCH.end(modules)
        WATCH.spoilt = WATCH.spoilt or bool(names or lingering or WATCH.lost)
    except BaseException:
        WATCH.spoilt = True
        WATCH.lost.append("code that could not be compared")
        raise
    if restored:
        runner.warn(f"it changed {', '.join(restored)}, which is restored before the next stage.")
    if lingering:
        fate = "so its process ends" if WATCH.exclusive else "and other stages fail while they run: use --workers 1"
        runner.warn(f"it left threads running ({', '.join(lingering)}), {fate}.")
    if names:
        _forget_results()
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise StageFailed(
            f"it replaced {', '.join(names[:SHOWN])}{more}, which other stages use, too. Nothing was "
            f"stored. A part must modify only its own objects, or restore what it replaces.{failure}",
            expected=True,
        )


def _forget_results() -> None:
    """Clear the caches of functions that compute, since replaced code may have filled them."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("bench_core.computing") or name.partition(".")[0] in WATCH.packages:
            for value in [*vars(module).values()]:
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


@contextmanager
def _remembering(runner: StageRunner, stage: Stage) -> Iterator[dict[Input, Reading]]:
    """Yield a mapping for the inputs of a stage; afterwards, reduce it to the undeclared ones and remember them."""
    found: dict[Input, Reading] = {}
    try:
        yield found
    finally:
        kept = undeclared(stage, {**found}, runner.data)
        found.clear()
        found.update(kept)
        remember(kept)


def _observed(
    runner: StageRunner, request: StageRequest, found: Mapping[Input, Reading], tell: bool = True
) -> Inputs:
    """Return the undeclared inputs of a stage until now, of its input artifacts, and of what it continues from."""
    stage = request.stage
    with reads():  # what this reads is none of its inputs
        inputs = with_earlier(stage, undeclared(stage, {**found}, runner.data), runner.data)
        if why := refusal(inputs, request.strict):
            raise StageFailed(why, expected=True)
        kept = digests(inputs)
        if (told := warning(inputs)) and tell:
            runner.warn(told)
        before = [runner.store.kept(*one).manifest.get("observed", {}) for one in stage.inputs.values()]
        moved = changed(runner.earlier)
    if moved:
        raise PluginError(
            f"{abridged(moved)}: changed after the training had read it, so nothing was stored. Run the suite again."
        )
    return united([*before, runner.earlier, kept])
