"""Restricts a plan to some of its cells, for `--only`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench_core.planning.plan import Plan
from bench_core.runs.selecting import chosen
from bench_core.suites.cells import Cell


def restrict(plan: Plan, only: Sequence[str]) -> Plan:
    """Return a plan whose stages are those of the cells that all of `only` select; all cells if it is empty.

    The other cells stay in it without stages. Raises SuiteError if the filters select no cell.
    """
    if not only:
        return plan
    cells: Sequence[Cell] = plan.cells
    for which in only:
        cells = chosen(cells, lambda cell: cell.axes, which)
    selected = {*cells}
    of_cell = {cell: stages for cell, stages in plan.of_cell.items() if cell in selected}
    keys = _with_inputs(plan, (key for stages in of_cell.values() for key in stages.values()))
    names = {cell.task for cell in selected}
    tasks = {name: [one for one in own if one in keys] for name, own in plan.tasks.items() if name in names}
    stages = {key: stage for key, stage in plan.stages.items() if key in keys}
    return replace(plan, of_cell=of_cell, tasks=tasks, stages=stages)


def is_left_out(plan: Plan, cell: Cell) -> bool:
    """Return whether a cell of a restricted plan was not selected."""
    return cell not in plan.of_cell and plan.lack(cell) is None


def _with_inputs(plan: Plan, keys: Iterable[str]) -> set[str]:
    """Return the keys of stages and of all that they need."""
    found: set[str] = set()
    waiting = [*keys]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += [upstream for _, upstream in plan.stages[key].inputs.values()]
    return found
