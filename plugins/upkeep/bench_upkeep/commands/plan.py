"""Show what a run would compute, what it would cost, and what is already stored."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench_core.commands import options
from bench_core.execution.progress import duration
from bench_core.terminal import count_of, say, to_json

if TYPE_CHECKING:
    from bench_core.planning.plan import Plan
    from bench_core.planning.stages import Stage
    from bench_core.storage.store import Store
    from bench_core.suites.suite import Suite
    from bench_upkeep.cost_estimates import CostEstimates

POWER = "Show the number of seeds that comparisons need, estimated from the variances of a finished run."
COLUMNS = ("stage", "used", "saved", "stored", "to do", "CPU time", "wall time")
UNKNOWN_COST = "not known"


class MetricDifference(click.ParamType[tuple[str, float]]):
    """A metric and a difference, such as bleu=0.5."""

    name = "METRIC=NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        metric, _, text = str(value).rpartition("=")
        difference = nan
        with suppress(ValueError):
            difference = float(text)
        if not metric or not isfinite(difference) or not difference:
            self.fail(f"{value!r} is not a metric with a difference, such as bleu=0.5.", param, ctx)
        return metric, difference


@click.command()
@options.of_suite
@options.data
@options.store
@options.only
@click.option("--calibrate", is_flag=True, help="Time a few updates of each training run here; takes seconds.")
@click.option("--power", "pilot", type=click.Path(path_type=Path), metavar="RUN", help=POWER)
@click.option(
    "--difference",
    "differences",
    multiple=True,
    type=MetricDifference(),
    help="With --power: the difference to detect.",
)
@click.option("--executor", "elsewhere", help="Executor of the planned run; local devices are then not checked.")
@options.as_json
def command(
    suite: Suite,
    data: Path,
    store: Store,
    only: tuple[str, ...],
    calibrate: bool,
    pilot: Path | None,
    differences: tuple[tuple[str, float], ...],
    elsewhere: str | None,
    as_json: bool,
) -> None:
    """Show the cells and stages of a suite, the number of stored stages, and the cost of the others.

    Costs are known for stages that ran on this device with any seed, and for training measured by --calibrate. With
    --power, show instead the number of seeds that the comparisons in the suite's tables need.
    """
    if pilot:
        rows = power(suite, pilot, dict(differences))
        say(to_json(rows) if as_json else power_text(suite, rows))
        return
    if calibrate and elsewhere:
        raise click.UsageError(
            "--calibrate measures this machine, but --executor computes elsewhere; use only one of them."
        )
    from bench_core.runs.plan_filter import to_do

    planned, pending = to_do(suite, data, store, only, local=not elsewhere)
    failures = calibrate_trainings(suite, planned, pending, store, data) if calibrate else {}
    pending = [  # calibration may have prepared tasks
        stage for stage in pending if not stage.about.first or not store.is_stored(stage)
    ]
    _show(suite, planned, pending, store, _estimates(planned, store), failures, calibrate, as_json)


def calibrate_trainings(
    suite: Suite, planned: Plan, pending: Sequence[Stage], store: Store, data: Path
) -> Mapping[str, str]:
    """Calibrate training stages on this machine in a worker process; return error messages by key."""
    from bench_core import Workers
    from bench_upkeep.calibrating import Calibrating

    with Workers(1, store.root, data) as executor:
        executor.warn = store.warn
        tell = lambda text: say(text, err=True)  # noqa: E731
        calibrating = Calibrating(suite, planned, store, executor, _estimates(planned, store), tell)
        calibrating.run(pending)
        return calibrating.failures


def _estimates(planned: Plan, store: Store) -> CostEstimates:
    from bench_core.storage.costs import Costs
    from bench_upkeep.cost_estimates import CostEstimates

    return CostEstimates(planned.stages, Costs(store))


def _show(
    suite: Suite, planned: Plan, pending: Sequence[Stage], store: Store, estimates: CostEstimates,
    failures: Mapping[str, str], is_calibrated: bool, as_json: bool,
) -> None:  # fmt: skip
    """Print the stages, the costs of training, and missing parts."""
    from bench_core.registry import stage_kinds
    from bench_core.runs.plan_filter import is_left_out

    joint = {name for name, kind in stage_kinds().items() if kind.joint}
    cells = sum(not is_left_out(planned, cell) for cell in planned.cells)
    rows = [row for row in _rows(planned, store, pending, estimates) if row["used"] or row["stage"] not in joint]
    of_module = {kind.forecast: kind.forecaster for kind in stage_kinds().values()}
    forecasts = [
        (
            forecast,
            forecast.rows([stage for stage in pending if stage.about.forecast == module], estimates, failures),
        )
        for module, forecast in of_module.items()
        if forecast is not None
    ]
    costs = [row for _, known in forecasts for row in known]
    if as_json:
        missing = {f"{part} {name}": reason for (part, name), reason in planned.missing.items()}
        about = {"suite": suite.label, "cells": cells, "stages": rows, "trainings": costs, "missing": missing}
        say(to_json(about))
        return
    from tabulate import tabulate

    say(f"{suite.label}: {count_of(cells, 'cell')}")
    say("saved: shared with other cells; CPU and wall time: run one at a time, on this device\n")
    say(tabulate([{name: row[name] for name in COLUMNS} for row in rows], headers="keys"))
    for forecast, known in forecasts:
        if any(row["seconds"] is not None for row in known):
            say(f"\n{tabulate(forecast.table(known), headers='keys')}")
    remarks = [text for forecast, known in forecasts for text in forecast.remarks(known, is_calibrated)]
    for text in [*clocks(pending, estimates), *remarks]:
        say(f"\n{text}")
    for (part, name), reason in planned.missing.items():
        say(f"{part} {name!r} cannot be read, so its cells will not run: {reason}")


def power(suite: Suite, pilot: Path, differences: Mapping[str, float]) -> Sequence[Mapping[str, Any]]:
    """Return the number of seeds that comparisons need, estimated from a finished run."""
    from bench_core.errors import SuiteError
    from bench_core.optional import REPORTS, installed_module
    from bench_core.runs.reporting import INSTALL
    from bench_core.runs.results import read_run

    reports = installed_module(REPORTS, "for_core")
    if reports is None:
        raise SuiteError(f"--power needs statistics: {INSTALL}.")
    rows: Sequence[Mapping[str, Any]] = reports.power_rows(read_run(pilot), len(suite.seeds), differences)
    return rows


def power_text(suite: Suite, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of seeds that comparisons need, as text for a terminal."""
    from tabulate import tabulate

    shown = [{**row, "needed": "more examples" if row["needed"] is None else row["needed"]} for row in rows]
    notes = [
        "needed: seeds of A and of B to detect `difference` (for perplexities, a ratio) with 80 % power at p < 0.05.",
        "more examples: no number of seeds suffices; the test set is too small.",
        f"would find: the difference detectable with the {count_of(len(suite.seeds), 'seed')} of this suite.",
    ]
    return "\n".join([tabulate(shown, headers="keys", floatfmt=".3g"), "", *notes])


def _rows(
    planned: Plan, store: Store, pending: Sequence[Stage], estimates: CostEstimates
) -> Iterator[dict[str, Any]]:
    """Yield the numbers of used, stored and remaining stages of each kind, and the cost of the remaining stages."""
    from bench_core.registry import stage_kinds

    number = Counter(stage.kind for stage in planned.stages.values())
    stored = Counter(stage.kind for stage in planned.stages.values() if store.has(stage.kind, stage.key))
    uses = Counter(planned.stages[key].kind for artifacts in planned.of_cell.values() for key in artifacts.values())
    for kind in stage_kinds():
        used = max(uses[kind], number[kind])  # tasks may be prepared without being used by cells
        remaining = [stage for stage in pending if stage.kind == kind]
        counts = {"used": used, "saved": used - number[kind], "stored": stored[kind], "to do": len(remaining)}
        yield {"stage": kind, **counts, **expected_cost(remaining, estimates)}


def expected_cost(stages: Sequence[Stage], estimates: CostEstimates) -> dict[str, Any]:
    """Return the predicted CPU and wall time of stages, in seconds and as text, and how many costs are unknown."""
    from bench_upkeep.cost_estimates import total

    costs = [estimates.of(stage) for stage in stages]
    (cpu, unknown_cpu), (wall, unknown) = (
        total(cost.cpu_seconds for cost in costs),
        total(cost.seconds for cost in costs),
    )
    by_wall_alone = unknown_cpu == len(stages) > unknown  # e.g. on a GPU
    return {
        "CPU time": "" if by_wall_alone else _at_least(cpu, unknown_cpu, len(stages)),
        "cpu_seconds": None if by_wall_alone else cpu,
        "wall time": _at_least(wall, unknown, len(stages)), "seconds": wall, "unknown": unknown,
    }  # fmt: skip


def _at_least(seconds: float, unknown: int, number: int) -> str:
    """Return the total time of stages as text: a lower bound if some costs are unknown."""
    if unknown == number:
        return UNKNOWN_COST if number else ""
    return f"at least {duration(seconds)}" if unknown else duration(seconds)


def clocks(stages: Sequence[Stage], estimates: CostEstimates) -> Iterator[str]:
    """Yield the ratio of CPU to wall time, and the load during calibration."""
    from bench_upkeep.cost_estimates import on_gpu

    known = [stage for stage in stages if estimates.of(stage).seconds is not None and not on_gpu(stage)]
    if old := sum(estimates.of(stage).cpu_seconds is None for stage in known):
        yield f"Only wall time is known for {count_of(old, 'stage')}: version 0.2 did not record CPU time."
    trainings = [stage for stage in known if stage.about.trains]
    loads = [load for stage in trainings if (load := estimates.of(stage).load) is not None]
    span = " to ".join(dict.fromkeys(f"{load:.1f}" for load in (min(loads), max(loads)))) if loads else ""
    busy = f" when they were calibrated, at a load of {span} on {os.cpu_count()} cores" if span else ""
    for threads, rate in estimates.rates.items():
        if any(stage.settings["threads"] == threads for stage in trainings):
            yield (
                f"Wall time is CPU time / {rate:.2f}: training runs with {count_of(threads, 'thread')} got "
                f"{rate:.2f} CPU seconds per second{busy} (idle: up to 1 per thread)."
            )
