"""The names of training runs and the numbers in the events that observers receive."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from bench_core.observer import Event, Number, TrainingEvent, TrainingName
from bench_core.planning.plan import Plan
from bench_core.planning.stages import Stage

MeasuredCells: TypeAlias = Mapping[str, list[tuple[Mapping[str, Any], str]]]


def name_training(stage: Stage, event: Event) -> Event:
    """Add the name of the training run to an event of a stage."""
    if not isinstance(event, TrainingEvent):
        return event
    seeds = stage.settings["vmapped"] if stage.about.joint else [stage.settings["seed"]]
    seed = seeds[event.copy]
    label = f"{stage.label.rpartition(', ')[0]}, seed {seed}"  # jointly trained seeds share a label
    return replace(event, training=TrainingName(label, stage.key, seed))


def measured_cells(plan: Plan) -> MeasuredCells:
    """Return the cells and metrics that use each measure stage, by stage key."""
    cells: defaultdict[str, list[tuple[Mapping[str, Any], str]]] = defaultdict(list)
    for cell, keys in plan.of_cell.items():
        for name, key in keys.items():
            if plan.stages[key].about.gives_number:
                cells[key].append((cell.axes, name.partition("/")[2]))
    return cells


def numbers_of(cells: MeasuredCells, key: str, number: Mapping[str, Any]) -> list[Number]:
    """Return the number of a measure stage for each cell that uses it."""
    return [Number(cell, metric, float(number["value"])) for cell, metric in cells.get(key, ())]
