"""What a run would compute: the plan of a suite, restricted to the cells that `--only` selects."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bench_core.planning.hardware import check_devices
from bench_core.planning.plan import Plan, needed, plan
from bench_core.planning.stages import Stage
from bench_core.runs.selecting import chosen
from bench_core.storage.store import Store
from bench_core.suites.cells import Cell, cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.suite import Suite


def restrict(whole: Plan, only: Sequence[str]) -> Plan:
    """Return a plan whose stages are those of the cells that all of `only` select; all cells if it is empty.

    The other cells stay in it without stages. Raises SuiteError if the filters select no cell.
    """
    if not only:
        return whole
    cells: Sequence[Cell] = whole.cells
    for which in only:
        cells = chosen(cells, lambda cell: cell.axes, which)
    selected = {*cells}
    of_cell = {cell: stages for cell, stages in whole.of_cell.items() if cell in selected}
    keys = _with_inputs(whole, (key for stages in of_cell.values() for key in stages.values()))
    names = {cell.task for cell in selected}
    tasks = {name: [one for one in own if one in keys] for name, own in whole.tasks.items() if name in names}
    stages = {key: stage for key, stage in whole.stages.items() if key in keys}
    return replace(whole, of_cell=of_cell, tasks=tasks, stages=stages)


def is_left_out(whole: Plan, cell: Cell) -> bool:
    """Return whether a cell of a restricted plan was not selected."""
    return cell not in whole.of_cell and whole.lack(cell) is None


def _with_inputs(whole: Plan, keys: Iterable[str]) -> set[str]:
    """Return the keys of stages and of all that they need."""
    found: set[str] = set()
    waiting = [*keys]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += [upstream for _, upstream in whole.stages[key].inputs.values()]
    return found


def to_do(suite: Suite, data: Path, store: Store, only: Sequence[str], local: bool) -> tuple[Plan, list[Stage]]:
    """Return the plan of a suite for the cells that `only` selects, and the stages that a run would compute.

    Raises SuiteError if parts do not fit, or if a device is not here although the stages are `local`.
    """
    check_fit(suite, cells_of(suite))
    found = restrict(plan(suite, data), only)
    left = needed(found, suite, store.is_stored)
    if local:
        check_devices(suite, left)
    return found, left
