"""`bench run SUITE`, with executors and observers chosen on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import click

from bench_core.commands import options
from bench_core.errors import SuiteError
from bench_core.optional import REPORTS, is_installed, optional_module
from bench_core.terminal import count_of, say, to_json

if TYPE_CHECKING:
    from bench_core.config import Config, ExecutorConfig, ObserverConfig
    from bench_core.runs.results import CellResult, Run
    from bench_core.runs.runner import Execution, Runner
    from bench_core.storage.store import Store
    from bench_core.suites.suite import Suite


MIN_SEEDS = 3  #: number of seeds at the first look of `--until decided`

EXECUTION_OPTIONS = (
    click.option(
        "--workers",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        help="Number of worker processes, each with the suite's number of threads; 0: compute in this process.",
    ),
    click.option(
        "--stop-after",
        type=options.DURATION,
        help="Stop after this time, such as 9m, with a checkpoint and exit code 3; run again to continue.",
    ),
    click.option(
        "--checkpoint-every",
        type=options.DURATION,
        default="5m",
        show_default=True,
        help="Time between training checkpoints.",
    ),
    click.option(
        "--until",
        type=click.Choice(["decided"]),
        help="Start with three seeds; add seeds of the suite until all claims are decided.",
    ),
    click.option(
        "--isolate",
        is_flag=True,
        help="Compute each stage in a separate process; costs two to three seconds per stage.",
    ),
    click.option(
        "--stage-timeout",
        type=options.DURATION,
        help="Kill stages that take longer than this, such as 2h; their cells fail. By default there is no limit.",
    ),
    click.option(
        "--per-gpu",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of stages that may share a GPU if their memory is known to fit [default: the suite's, else 1].",
    ),
    click.option(
        "--strict/--no-strict",
        default=lambda: bool(os.environ.get("CI")),
        help="Fail stages that read files or variables not covered by their key [default: if $CI is set].",
    ),
    click.option("--executor", "executor_name", help="Compute stages elsewhere; see `bench list executors`."),
    click.option("--with", "executor_settings", multiple=True, metavar="KEY=VALUE", help="Setting of the executor."),
    click.option(
        "--observe", "observers", multiple=True, metavar="NAME[:KEY=VALUE,...]",
        help="Report the run to an observer, such as an experiment tracker; see `bench list observers`.",
    ),
)  # fmt: skip


def execution_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add execution options, collected in an `Execution`, and replace the suite with its looks, a list of suites."""

    @wraps(function)
    def command(
        suite: Suite,
        until: str | None,
        executor_name: str | None,
        executor_settings: tuple[str, ...],
        observers: tuple[str, ...],
        **rest: Any,
    ) -> int:
        from bench_core.runs.runner import Execution

        execution = {key: rest.pop(key) for key in Execution.__annotations__.keys() & rest.keys()}
        execution |= {"elsewhere": chosen(executor_name, executor_settings), "observers": chosen_observers(observers)}
        return function(_looks(suite) if until else [suite], execution=execution, **rest)

    for option in reversed(EXECUTION_OPTIONS):
        command = option(command)
    return command


@click.command()
@options.of_suite
@options.data
@options.store
@options.runs
@options.out
@execution_options
@options.only
@click.option("--dry-run", is_flag=True, help="Only print the stages that would be computed.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and the path of the report.")
@options.as_json
def command(
    looks: Sequence[Suite],
    data: Path,
    store: Store,
    runs: Path,
    out: Path,
    execution: Execution,
    only: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run a suite: compute results that are not in the store, then write the report.

    With --json, standard output is a JSON summary; everything else is printed to standard error.
    """
    from bench_core.execution.progress import Errors, ProgressLines
    from bench_core.runs.reporting import home
    from bench_core.runs.runner import run_suites

    label = looks[-1].label
    home(out, label)  # fails, if at all, before anything runs
    if dry_run:
        return _preview(looks[-1], data, store, only, execution["elsewhere"] is None, as_json)
    with nullcontext(Errors()) if quiet else ProgressLines(label) as progress:
        execution["progress"] = progress
        with closing(run_suites(looks, data, store, runs, only, execution)) as executions:
            for runner, run in executions:
                if len(looks) > 1 and (runner.loop.stopped or _claims_module().decided(run)):
                    break
    code = _exit_code(run, runner)
    _print_result(run, runner, out, code, quiet, as_json)
    return code


def _claims_module() -> ModuleType:
    return optional_module(REPORTS, "for_core", "--until decided")


def _looks(suite: Suite) -> list[Suite]:
    """Return the suite with three seeds, four seeds, and so on; raise SuiteError if it lacks seeds or claims."""
    from bench_core.runs.reporting import INSTALL

    if not is_installed(REPORTS):
        raise SuiteError(f"--until decided needs statistics: {INSTALL}.")
    counts = range(MIN_SEEDS, len(suite.seeds) + 1)
    if not counts or not suite.sections.get("claims"):
        what = "no claims" if counts else f"only {count_of(len(suite.seeds), 'seed')}: set the maximum with --seeds"
        raise SuiteError(f"--until decided needs claims and at least {MIN_SEEDS} seeds; {suite.label} has {what}.")
    changes = [change for change in suite.asked if not change.startswith("seeds=")]
    labels = [f"until=decided, look {look} of {len(counts)}" for look in range(1, len(counts) + 1)]
    return [
        replace(
            suite, seeds=suite.seeds[:count], asked=[*changes, label],
            effective={**suite.effective, "seeds": [*suite.seeds[:count]]},
        )
        for count, label in zip(counts, labels, strict=True)
    ]  # fmt: skip


def _preview(suite: Suite, data: Path, store: Store, only: tuple[str, ...], local: bool, as_json: bool) -> int:
    """Print the stages that would be computed."""
    from bench_core.runs.plan_filter import to_do

    _, stages = to_do(suite, data, store, only, local)
    if as_json:
        rows = [{"stage": stage.kind, "of": stage.label, "key": stage.key} for stage in stages]
        say(to_json({"suite": suite.label, "stages": rows}))
        return 0
    for stage in stages:
        say(f"{stage.action} {stage.label}")
    say(f"{suite.label}: {count_of(len(stages), 'stage')} would be computed.")
    return 0


def _exit_code(run: Run, runner: Runner) -> int:
    """Return 3 for a stopped run, 1 for a run with failures, else 0; only selected cells count."""
    if runner.loop.stopped:
        return 3
    tasks_failed = any(info.get("reason") for info in run.info["tasks"].values())
    return 1 if tasks_failed or any(cell.status != "done" for cell in _selected_cells(run)) else 0


def _selected_cells(run: Run) -> list[CellResult]:
    from bench_core.runs.selecting import LEFT_OUT

    return [cell for cell in run.cells if cell.reason != LEFT_OUT]


def _print_result(run: Run, runner: Runner, out: Path, code: int, quiet: bool, as_json: bool) -> None:
    """Write the report of a run; print the report, failures, and the paths of the files."""
    from bench_core.runs.reporting import home, place, reported

    folder, changes = place(run, out)
    text, report = reported(run, folder)
    cells = _selected_cells(run)
    failed = [cell for cell in cells if cell.status != "done"]
    for status, reason in dict.fromkeys((cell.status, cell.reason) for cell in failed):
        number = sum((cell.status, cell.reason) == (status, reason) for cell in failed)
        say(f"{count_of(number, 'cell')} {status}: {reason}", err=True)
    for name, info in run.info["tasks"].items():
        if info.get("reason"):
            say(f"task {name!r} {info['status']}: {info['reason']}", err=True)
    if as_json:
        say(to_json(_summary(run, runner, report, changes, code), 1))
        return
    if quiet:
        say(report)
        return
    say(text)
    done = len(runner.loop.computed)
    computed = f"{count_of(done, 'stage')} computed" if done or failed else "all stored, nothing computed"
    computed += "".join(f", {name} stopped at step {step:,}" for name, step in runner.loop.checkpoints.items())
    say(f"{count_of(len(cells), 'cell')}: {computed}")
    same = "" if runner.wrote else ", which has the same results"
    say(f"run     {run.folder}{same}\nreport  {report}")
    if changes:
        say(f"        ({changes}, so {home(out, str(run.info['label']))} is not replaced)")


def _summary(run: Run, runner: Runner, report: str, changes: str, code: int) -> dict[str, Any]:
    """Return the summary of a run as JSON data; `code` is the exit code."""
    return {
        "suite": run.info["label"], "exit_code": code, "run": str(run.folder), "new": runner.wrote,
        "report": report, "changes": changes, "computed": len(runner.loop.computed),
        "checkpoints": runner.loop.checkpoints,
        "cells": [
            {
                **cell.cell, "status": cell.status, "reason": cell.reason,
                "values": {name: number.value for name, number in cell.numbers.items()},
            }
            for cell in run.cells
        ],
        "tasks": {
            name: {"status": info.get("status", "done"), "reason": info.get("reason", "")}
            for name, info in run.info["tasks"].items()
        },
    }  # fmt: skip


def chosen(name: str | None, words: tuple[str, ...]) -> ExecutorConfig | None:
    """Return the executor `name` with settings `KEY=VALUE`; raise SuiteError if they are invalid."""
    if name is None:
        if words:
            raise SuiteError(f"--with {words[0]} is a setting of an executor. Choose the executor with --executor.")
        return None
    return cast("ExecutorConfig", chosen_part("executor", name, words, "--with "))


def chosen_part(kind: str, name: str, words: Iterable[str], option: str) -> Config:
    """Return the part `name` with settings `KEY=VALUE`; raise SuiteError if they are invalid.

    `option` is the text before a setting on the command line, for messages.
    """
    from pydantic import ValidationError

    from bench_core.registry import part, suggestion
    from placed_settings import sentence

    schema = part(kind, name).config
    settings = {key: value for key, _, value in (word.partition("=") for word in words)}
    for key in settings:
        if key not in schema.model_fields:
            advice = suggestion(key, list(schema.model_fields), "Settings")
            raise SuiteError(f"{option}{key}: {kind} {name!r} has no setting {key!r}. {advice}")
    try:
        return schema.model_validate_strings(settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        text = sentence([first], schema, first["loc"])
        raise SuiteError(f"{option}{key}={settings.get(key, '')}: {text}") from None


def chosen_observers(arguments: Iterable[str]) -> list[ObserverConfig]:
    """Return the observers `NAME` or `NAME:KEY=VALUE,KEY=VALUE`; raise SuiteError if any cannot be used."""
    from bench_core.registry import part
    from bench_core.suites.extras import remedy

    observers = []
    for argument in dict.fromkeys(arguments):
        name, _, settings = argument.partition(":")
        config = chosen_part("observer", name, filter(None, settings.split(",")), f"--observe {name}:")
        if command := remedy(observer := part("observer", name), config):
            extras = f"{', '.join(sorted(config.extras()))} of {observer.distribution}"
            text = f"--observe {name}: this observer needs extras that are not installed: {extras}."
            raise SuiteError(f"{text} Install them with: {command}")
        observers.append(cast("ObserverConfig", config))
    return observers
