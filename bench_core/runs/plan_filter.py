"""The stages that a run would compute: the plan of a suite, restricted to the cells that `--only` selects."""

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


def restrict(full_plan: Plan, only: Sequence[str]) -> Plan:
    """Return a plan with stages only for the cells that match all filters in `only`; all cells if `only` is empty.

    The plan contains all other cells without stages. Raises SuiteError if no cell matches.
    """
    if not only:
        return full_plan
    cells: Sequence[Cell] = full_plan.cells
    for cell_filter in only:
        cells = chosen(cells, lambda cell: cell.axes, cell_filter)
    selected = {*cells}
    of_cell = {cell: stages for cell, stages in full_plan.of_cell.items() if cell in selected}
    keys = _with_inputs(full_plan, (key for stages in of_cell.values() for key in stages.values()))
    names = {cell.task for cell in selected}
    tasks = {name: [key for key in every if key in keys] for name, every in full_plan.tasks.items() if name in names}
    stages = {key: stage for key, stage in full_plan.stages.items() if key in keys}
    return replace(full_plan, of_cell=of_cell, tasks=tasks, stages=stages)


def is_left_out(full_plan: Plan, cell: Cell) -> bool:
    """Return whether a cell was excluded from a restricted plan."""
    return cell not in full_plan.of_cell and full_plan.lack(cell) is None


def _with_inputs(full_plan: Plan, keys: Iterable[str]) -> set[str]:
    """Return the keys of stages and all stages that they depend on."""
    closure: set[str] = set()
    waiting = [*keys]
    while waiting:
        key = waiting.pop()
        if key not in closure:
            closure.add(key)
            waiting += [upstream for _, upstream in full_plan.stages[key].inputs.values()]
    return closure


def to_do(suite: Suite, data: Path, store: Store, only: Sequence[str], local: bool) -> tuple[Plan, list[Stage]]:
    """Return the plan of a suite for the cells that `only` selects, and the stages that a run would compute.

    Raises SuiteError if parts are incompatible, or if stages are `local` and need a device that is not available.
    """
    check_fit(suite, cells_of(suite))
    restricted = restrict(plan(suite, data), only)
    left = needed(restricted, suite, store.is_stored)
    if local:
        check_devices(suite, left)
    return restricted, left
