"""What observers hear of the stages of a plan: trainings and numbers by their names."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from bench_core.observer import Event, Number, TrainingEvent, TrainingName
from bench_core.planning.plan import Plan
from bench_core.planning.stages import Stage

Measured: TypeAlias = Mapping[str, list[tuple[Mapping[str, Any], str]]]


def named(stage: Stage, event: Event) -> Event:
    """Return an event of a stage with the name of its training."""
    if not isinstance(event, TrainingEvent):
        return event
    seeds = stage.settings["together"] if stage.about.joint else [stage.settings["seed"]]
    seed = seeds[event.copy]
    label = f"{stage.label.rpartition(', ')[0]}, seed {seed}"  # one of several seeds has the label of them all
    return replace(event, training=TrainingName(label, stage.key, seed))


def measured_cells(plan: Plan) -> Measured:
    """Return the cells and metrics that each measuring stage is for, by its key."""
    found: defaultdict[str, list[tuple[Mapping[str, Any], str]]] = defaultdict(list)
    for cell, keys in plan.of_cell.items():
        for name, key in keys.items():
            if plan.stages[key].about.gives_number:
                found[key].append((cell.axes, name.partition("/")[2]))
    return found


def numbers_of(cells: Measured, key: str, number: Mapping[str, Any]) -> list[Number]:
    """Return what a measuring stage found, for each cell whose metric it is."""
    return [Number(cell, metric, float(number["value"])) for cell, metric in cells.get(key, ())]
