"""Plans a suite: its cells, and the distinct stages that they need."""

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
    """All stages of a suite in topological order, and the keys of each cell."""

    cells: list[Cell]
    tasks: dict[str, list[str]] = field(default_factory=dict)  # name -> keys of its prepare stages
    settings: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # task with separate splits -> settings
    stages: dict[str, Stage] = field(default_factory=dict)
    of_cell: dict[Cell, dict[str, str]] = field(default_factory=dict)  # stage name -> key
    missing: dict[tuple[str, str], str] = field(default_factory=dict)  # (kind, name) -> why it cannot be read

    def lack(self, cell: Cell) -> str | None:
        """Return the reason why a cell cannot run (unreadable files of its task or model), or None."""
        return self.missing.get(("task", cell.task)) or self.missing.get(("model", cell.model))


def plan(suite: Suite, data: Path) -> Plan:
    """Return the plan of a suite; raise DataError if all tasks, or all models, have unreadable files."""
    suite = located_suite(suite, data)
    maker = StageMaker(suite, data)
    planner = Planner(maker)
    new_plan = Plan(cells_of(suite), stages=maker.stages)
    for name, task in suite.tasks.items():
        _try(new_plan, ("task", name), lambda: task.reads(data))  # noqa: B023
    for name, entry in suite.models.items():
        _try(new_plan, ("model", name), lambda: [maker.files(variant.config) for variant in entry.all])  # noqa: B023
    for kind, names in (("task", suite.tasks), ("model", suite.models)):
        if names and all((kind, name) in new_plan.missing for name in names):
            raise DataError("\n".join(dict.fromkeys(new_plan.missing.values())))
    if unreadable := [*maker.mark_files(new_plan.missing)]:
        raise DataError("\n".join(unreadable))
    for name, config in suite.tasks.items():
        if ("task", name) not in new_plan.missing:
            splits = (split for split in suite.splits if config.purposes(split))
            new_plan.tasks[name] = [*dict.fromkeys(planner.prepare(name, split) for split in (None, *splits))]
            if planner.is_apart(name):
                new_plan.settings[name] = maker.settings_of(config)
    for cell in new_plan.cells:
        if new_plan.lack(cell) is None:
            new_plan.of_cell[cell] = planner.cell(cell)
    return new_plan


def located_suite(suite: Suite, data: Path) -> Suite:
    """Return a suite with absolute paths in the settings of its parts."""

    def absolute(settings: T) -> T:
        return located(settings, data, suite.folder)

    def locate(entry: Entry) -> Entry:
        by_task = {task: locate(variant) for task, variant in entry.by_task.items()}
        return replace(entry, config=absolute(entry.config), training=absolute(entry.training), by_task=by_task)

    parts = {
        section: {name: absolute(config) for name, config in getattr(suite, section).items()}
        for section in ("tasks", "decoders", "metrics", "probes")
    }
    return replace(suite, models={name: locate(entry) for name, entry in suite.models.items()}, **parts)  # type: ignore[arg-type]


def lists_tasks(full_plan: Plan, suite: Suite) -> bool:
    """Return whether the tasks are needed for a table of tasks, independently of cells."""
    return not full_plan.cells or any(section.lists_tasks(suite) for section in sections())


def needed(
    full_plan: Plan, suite: Suite, stored: Callable[[Stage, bool], bool], cells: Iterable[Cell] | None = None
) -> list[Stage]:
    """Return the stages to compute for missing results of all cells and listed tasks, or of `cells`; inputs first.

    `stored(stage, record_suffices)` returns whether an artifact is stored, or, if that suffices, its imported
    record. A record suffices if neither the weights of a model nor the data of a task are needed.
    """
    wanted: set[str] = set()

    def want(key: str, record_suffices: bool = True) -> None:
        stage = full_plan.stages[key]
        if key not in wanted and not stored(stage, record_suffices):
            wanted.add(key)
            for _, upstream in stage.inputs.values():
                want(upstream, record_suffices=stage.about.gives_number)

    for cell in full_plan.cells if cells is None else cells:
        for key in full_plan.of_cell.get(cell, {}).values():
            want(key)  # including preparation and training, which reports describe
    if cells is None and lists_tasks(full_plan, suite):
        for key in chain.from_iterable(full_plan.tasks.values()):
            want(key)
    return [stage for key, stage in full_plan.stages.items() if key in wanted]


def _try(new_plan: Plan, part: tuple[str, str], read: Callable[[], object]) -> None:
    try:
        read()
    except DataError as error:
        new_plan.missing[part] = str(error)
    except (OSError, ValueError) as error:  # an impossible file name, e.g. with 300 letters
        reason = error.strerror if isinstance(error, OSError) else error
        new_plan.missing[part] = f"its files cannot be read ({reason}). Correct their paths."
