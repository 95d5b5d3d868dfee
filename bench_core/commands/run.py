"""`bench run SUITE`"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import click

from bench_core.commands import options
from bench_core.optional import REPORTS, is_installed, optional_module
from bench_core.terminal import counted, say, to_json

if TYPE_CHECKING:
    from bench_core.config import ExecutorConfig
    from bench_core.runs.results import CellResult, Run
    from bench_core.runs.runner import Execution, Runner
    from bench_core.storage.store import Store
    from bench_core.suites.suite import Suite


FIRST_LOOK = 3  #: seeds with which `--until decided` begins


HOW = (
    click.option(
        "--workers",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        help="Number of worker processes, each with the threads of the suite; 0 computes in this process.",
    ),
    click.option(
        "--stop-after",
        type=options.DURATION,
        help="Stop after this time, such as 9m, with a checkpoint. Exit code 3; run again to continue.",
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
        help="Start with three seeds and add more, up to all of the suite, until its claims are decided.",
    ),
    click.option(
        "--isolate",
        is_flag=True,
        help="Compute each stage in its own process; two to three seconds slower per stage.",
    ),
    click.option(
        "--stage-timeout",
        type=options.DURATION,
        help="Kill a stage that takes longer, such as 2h; its cells fail. By default there is no limit.",
    ),
    click.option(
        "--per-gpu",
        type=click.IntRange(min=1),
        metavar="N",
        help="Stages that share a GPU if their memory is known to fit [default: that of the suite, else 1].",
    ),
    click.option(
        "--strict/--no-strict",
        default=lambda: bool(os.environ.get("CI")),
        help="Fail a stage that reads files or variables which its key does not cover [default: if $CI is set].",
    ),
    click.option("--executor", "name", help="Compute stages elsewhere; see `bench list executors`."),
    click.option("--with", "given", multiple=True, metavar="KEY=VALUE", help="A setting of the executor."),
    click.option(
        "--observe", "watching", multiple=True, metavar="NAME[:KEY=VALUE,...]",
        help="Report the run to an observer, such as an experiment tracker; see `bench list observers`.",
    ),
)  # fmt: skip


def how(function: Callable[..., int]) -> Callable[..., int]:
    """Add options on how stages are computed, and gather them as `Execution`; the suite becomes one for each look."""

    @wraps(function)
    def command(
        suite: Suite,
        until: str | None,
        name: str | None,
        given: tuple[str, ...],
        watching: tuple[str, ...],
        **rest: Any,
    ) -> int:
        from bench_core.commands.chosen_parts import chosen_observers
        from bench_core.runs.runner import Execution

        found = {key: rest.pop(key) for key in Execution.__annotations__.keys() & rest.keys()}
        found |= {"elsewhere": chosen(name, given), "observers": chosen_observers(watching)}
        return function(_looks(suite) if until else [suite], execution=found, **rest)

    for one in reversed(HOW):
        command = one(command)
    return command


@click.command()
@options.of_suite
@options.data
@options.store
@options.runs
@options.out
@how
@options.only
@click.option("--dry-run", is_flag=True, help="Print the stages that would be computed, and compute nothing.")
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
    """Run a suite: compute what is not in the store, then write the report.

    With --json, the summary on standard output is JSON, and everything else is on standard error.
    """
    from bench_core.execution.progress import Errors, Lines
    from bench_core.runs.reporting import home
    from bench_core.runs.runner import performed

    label = looks[-1].label
    home(out, label)  # an error before anything runs
    if dry_run:
        return _preview(looks[-1], data, store, only, execution["elsewhere"] is None, as_json)
    with nullcontext(Errors()) if quiet else Lines(label) as progress:
        execution["progress"] = progress
        with closing(performed(looks, data, store, runs, only, execution)) as performing:
            for runner, found in performing:
                if len(looks) > 1 and (runner.loop.stopped or _judging().decided(found)):
                    break
    code = _exit_code(found, runner)
    _tell(found, runner, out, code, quiet, as_json)
    return code


def _judging() -> ModuleType:
    return optional_module(REPORTS, "for_core", "--until decided")


def _looks(suite: Suite) -> list[Suite]:
    """Return a suite with three seeds, with one more, and so on; raise SuiteError if it has fewer or no claim."""
    from bench_core.errors import SuiteError
    from bench_core.runs.reporting import INSTALL

    if not is_installed(REPORTS):
        raise SuiteError(f"--until decided needs statistics: {INSTALL}.")
    numbers = range(FIRST_LOOK, len(suite.seeds) + 1)
    if not numbers or not suite.sections.get("claims"):
        what = "no claims" if numbers else f"only {counted(len(suite.seeds), 'seed')}: set the maximum with --seeds"
        raise SuiteError(f"--until decided needs claims and at least {FIRST_LOOK} seeds; {suite.label} has {what}.")
    asked = [one for one in suite.asked if not one.startswith("seeds=")]
    said = [f"until=decided, look {look} of {len(numbers)}" for look in range(1, len(numbers) + 1)]
    return [
        replace(
            suite, seeds=suite.seeds[:number], asked=[*asked, look],
            effective={**suite.effective, "seeds": [*suite.seeds[:number]]},
        )
        for number, look in zip(numbers, said, strict=True)
    ]  # fmt: skip


def _preview(suite: Suite, data: Path, store: Store, only: tuple[str, ...], local: bool, as_json: bool) -> int:
    """Print the stages that would be computed."""
    from bench_core.runs.plan_filter import to_do

    _, stages = to_do(suite, data, store, only, local)
    if as_json:
        rows = [{"stage": one.kind, "of": one.label, "key": one.key} for one in stages]
        say(to_json({"suite": suite.label, "stages": rows}))
        return 0
    for one in stages:
        say(f"{one.action} {one.label}")
    say(f"{suite.label}: {counted(len(stages), 'stage')} would be computed, nothing was.")
    return 0


def _exit_code(found: Run, runner: Runner) -> int:
    """Return 3 for a run that was stopped, 1 for one with failures, else 0; only selected cells count."""
    if runner.loop.stopped:
        return 3
    wanting = any(about.get("reason") for about in found.info["tasks"].values())
    return 1 if wanting or any(cell.status != "done" for cell in _asked_for(found)) else 0


def _asked_for(found: Run) -> list[CellResult]:
    from bench_core.runs.selecting import LEFT_OUT

    return [cell for cell in found.cells if cell.reason != LEFT_OUT]


def _tell(found: Run, runner: Runner, out: Path, code: int, quiet: bool, as_json: bool) -> None:
    """Write and print the report of a run; say what failed, and where the files are."""
    from bench_core.runs.reporting import home, place, reported

    folder, why = place(found, out)
    text, report = reported(found, folder)
    cells = _asked_for(found)
    failed = [cell for cell in cells if cell.status != "done"]
    for status, reason in dict.fromkeys((cell.status, cell.reason) for cell in failed):
        number = sum((cell.status, cell.reason) == (status, reason) for cell in failed)
        say(f"{counted(number, 'cell')} {status}: {reason}", err=True)
    for name, about in found.info["tasks"].items():
        if about.get("reason"):
            say(f"task {name!r} {about['status']}: {about['reason']}", err=True)
    if as_json:
        say(to_json(_summary(found, runner, report, why, code), 1))
        return
    if quiet:
        say(report)
        return
    say(text)
    done = len(runner.loop.computed)
    computed = f"{counted(done, 'stage')} computed" if done or failed else "all stored, nothing computed"
    computed += "".join(f", {name} stopped at step {step:,}" for name, step in runner.loop.checkpoints.items())
    say(f"{counted(len(cells), 'cell')}: {computed}")
    same = "" if runner.wrote else ", which this one equals"
    say(f"run     {found.folder}{same}\nreport  {report}")
    if why:
        say(f"        ({why}, so {home(out, str(found.info['label']))} is left as it is)")


def _summary(found: Run, runner: Runner, report: str, why: str, code: int) -> dict[str, Any]:
    """Return what became of a run as data for programs; `code` is the exit code."""
    return {
        "suite": found.info["label"], "exit_code": code, "run": str(found.folder), "new": runner.wrote,
        "report": report, "changes": why, "computed": len(runner.loop.computed),
        "checkpoints": runner.loop.checkpoints,
        "cells": [
            {
                **cell.cell, "status": cell.status, "reason": cell.reason,
                "values": {name: number.value for name, number in cell.numbers.items()},
            }
            for cell in found.cells
        ],
        "tasks": {
            name: {"status": about.get("status", "done"), "reason": about.get("reason", "")}
            for name, about in found.info["tasks"].items()
        },
    }  # fmt: skip


def chosen(name: str | None, given: tuple[str, ...]) -> ExecutorConfig | None:
    """Return the executor `name` with settings `KEY=VALUE`; raise SuiteError if they are invalid."""
    from bench_core.commands.chosen_parts import chosen_part
    from bench_core.errors import SuiteError

    if name is None:
        if given:
            raise SuiteError(f"--with {given[0]} is a setting of an executor. Choose the executor with --executor.")
        return None
    return cast("ExecutorConfig", chosen_part("executor", name, given, "--with "))
