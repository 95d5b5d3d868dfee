"""`bench check SUITE...`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.errors import BenchError, DataError
from bench_core.terminal import counted, say

if TYPE_CHECKING:
    from bench_core.storage.store import Store
    from bench_core.suites.suite import Suite


@click.command()
@click.argument("suites", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--profile", help="One profile; by default all of them, and none.")
@options.changed
@click.option("--build", is_flag=True, help="Also prepare the tasks and build every model, without weights.")
@click.option("--contracts", is_flag=True, help="Also try the contracts of the interfaces on every part.")
@options.data
@options.store
def command(
    suites: tuple[Path, ...], profile: str | None, settings: tuple[str, ...], build: bool, contracts: bool,
    data: Path, store: Store,
) -> int:  # fmt: skip
    """Check suites without running them, and report every problem at once."""
    from bench_core.suites import yaml_source as located

    checked: dict[str, Suite] = {}
    wrong: list[str] = []
    for path in suites:
        try:
            profiles = located.read(path).data.get("profiles")
        except BenchError as error:
            wrong.append(str(error))
            continue
        for name in [profile] if profile else [None, *(profiles if isinstance(profiles, dict) else ())]:
            label = str(path) if name is None else f"{path} --profile {name}"
            try:
                checked[label], cells = _check(path, name, settings, build, data, store)
                say(f"{label}: {counted(cells, 'cell')} can run.")
            except BenchError as error:
                wrong.append(str(error))
    for text in dict.fromkeys(wrong):
        say(text, err=True)
    if wrong or not contracts:
        return 2 if wrong else 0
    from bench_core.testing.suite_contracts import check_contracts  # imports torch

    return check_contracts(checked, data)


def _check(
    path: Path, profile: str | None, settings: tuple[str, ...], build: bool, data: Path, store: Store
) -> tuple[Suite, int]:
    """Return a suite and the number of its cells; raise BenchError with all its problems."""
    from bench_core.suites.cells import cells_of
    from bench_core.suites.check import check_fit
    from bench_core.suites.load import load

    suite = load(path, profile, settings)
    cells = cells_of(suite)
    check_fit(suite, cells)
    _look_for_data_and_devices(suite, data, bool(cells))
    if build:
        _build(suite, data, store)
    return suite, len(cells)


def _look_for_data_and_devices(suite: Suite, data: Path, runs: bool) -> None:
    """Report missing data files and devices as notes: the suite may run where they are."""
    from bench_core.planning.hardware import missing_device
    from bench_core.planning.plan import located_suite
    from bench_core.planning.planner import Planner

    planner = Planner(located_suite(suite, data), data)
    missing = set()
    for name, task in planner.suite.tasks.items():
        try:
            task.reads(data)
        except (DataError, OSError) as error:  # the system's own, of names that cannot be those of files
            missing.add(("task", name))
            say(f"note: task {name!r}: {error}")
    for text in planner.look(missing):
        say(f"note: {text}")
    if runs and (text := missing_device({one.device for one in suite.hardware.values()})):
        say(f"note: {text}")


def _build(suite: Suite, data: Path, store: Store) -> None:
    from bench_core.execution.progress import Progress
    from bench_core.runs.runner import Runner, executor

    runner = Runner(suite, data, store, executor(0, store, data), Progress())
    runner.build()
    if runner.failures:
        raise BenchError("\n".join(dict.fromkeys(runner.failures.values())))
