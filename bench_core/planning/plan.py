"""Plans a suite: its cells, and the stages that they need, each once."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from bench_core.errors import DataError
from bench_core.planning.path_settings import located
from bench_core.planning.planner import Planner
from bench_core.planning.stage_maker import StageMaker
from bench_core.planning.stages import Stage
from bench_core.registry import sections
from bench_core.suites.cells import Cell, cells_of
from bench_core.suites.suite import Entry, Suite

T = TypeVar("T")


@dataclass
class Plan:
    """All stages of a suite in topological order, and the artifacts of each cell."""

    cells: list[Cell]
    tasks: dict[str, list[str]] = field(default_factory=dict)  # name -> keys of what is prepared of it
    settings: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # of tasks with splits apart
    stages: dict[str, Stage] = field(default_factory=dict)  # by key
    of_cell: dict[Cell, dict[str, str]] = field(default_factory=dict)  # stage name -> key
    missing: dict[tuple[str, str], str] = field(default_factory=dict)  # (kind, name) -> why its files cannot be read

    def lack(self, cell: Cell) -> str | None:
        """Return why a cell cannot run (files of its task or model cannot be read), or None."""
        return self.missing.get(("task", cell.task)) or self.missing.get(("model", cell.model))


def plan(suite: Suite, data: Path) -> Plan:
    """Return the plan of a suite; raise DataError if none of its tasks, or none of its models, can be read."""
    suite = located_suite(suite, data)
    maker = StageMaker(suite, data)
    planner = Planner(maker)
    found = Plan(cells_of(suite), stages=maker.stages)
    for name, task in suite.tasks.items():
        _try(found, ("task", name), lambda: task.reads(data))  # noqa: B023
    for name, entry in suite.models.items():
        _try(found, ("model", name), lambda: [maker.files(one.config) for one in entry.all])  # noqa: B023
    for kind, names in (("task", suite.tasks), ("model", suite.models)):
        if names and all((kind, name) in found.missing for name in names):
            raise DataError("\n".join(dict.fromkeys(found.missing.values())))
    if wrong := [*maker.look(found.missing)]:
        raise DataError("\n".join(wrong))
    for name, config in suite.tasks.items():
        if ("task", name) not in found.missing:
            known = (split for split in suite.splits if config.purposes(split))
            found.tasks[name] = [*dict.fromkeys(planner.prepare(name, split) for split in (None, *known))]
            if planner.is_apart(name):
                found.settings[name] = maker.described(config)
    for cell in found.cells:
        if found.lack(cell) is None:
            found.of_cell[cell] = planner.cell(cell)
    return found


def located_suite(suite: Suite, data: Path) -> Suite:
    """Return a suite with absolute paths in the settings of its parts."""

    def absolute(settings: T) -> T:
        return located(settings, data, suite.folder)

    def entry(one: Entry) -> Entry:
        others = {task: entry(other) for task, other in one.by_task.items()}
        return replace(one, config=absolute(one.config), training=absolute(one.training), by_task=others)

    parts = {
        section: {name: absolute(config) for name, config in getattr(suite, section).items()}
        for section in ("tasks", "decoders", "metrics", "probes")
    }
    return replace(suite, models={name: entry(one) for name, one in suite.models.items()}, **parts)  # type: ignore[arg-type]


def lists_tasks(found: Plan, suite: Suite) -> bool:
    """Return whether tasks are needed for a table of tasks, not for cells."""
    return not found.cells or any(one.lists_tasks(suite) for one in sections())


def needed(
    found: Plan, suite: Suite, stored: Callable[[Stage, bool], bool], cells: Iterable[Cell] | None = None
) -> list[Stage]:
    """Return the stages to compute: those of missing outcomes and numbers, and what they need, inputs first.

    Those of all cells, and of tasks that are wanted for themselves, or of some `cells` alone. `stored` says whether
    an artifact is there; with True, whether at least that is which was carried of it, which is enough for whoever
    needs neither the weights of a training nor the data of a task.
    """
    wanted: set[str] = set()

    def want(key: str, told: bool = True) -> None:
        stage = found.stages[key]
        if key not in wanted and not stored(stage, told):
            wanted.add(key)
            for _, upstream in stage.inputs.values():
                want(upstream, told=stage.about.gives_number)

    for cell in found.cells if cells is None else cells:
        for key in found.of_cell.get(cell, {}).values():
            want(key)  # the task and the training, too: a report tells of them
    if cells is None and lists_tasks(found, suite):
        for key in chain.from_iterable(found.tasks.values()):
            want(key)
    return [stage for key, stage in found.stages.items() if key in wanted]


def _try(found: Plan, part: tuple[str, str], read: Callable[[], object]) -> None:
    try:
        read()
    except DataError as error:
        found.missing[part] = str(error)
    except (OSError, ValueError) as error:  # a name that no file can have, such as one of 300 letters
        reason = error.strerror if isinstance(error, OSError) else error
        found.missing[part] = f"its files cannot be read ({reason}). Correct their names."
