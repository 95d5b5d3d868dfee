"""Lets the parts of a suite open their files and servers, and collects their findings."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from bench_core.config import Config, ModelConfig, TaskConfig
from bench_core.errors import PluginError
from bench_core.files import check_weights
from bench_core.inspection import Findings, Inspection
from bench_core.model import Scorer
from bench_core.planning.path_settings import located, paths
from bench_core.suites.cells import Cell, cells_of
from bench_core.suites.suite import Suite
from bench_core.suites.training import TrainingBase
from placed_settings import Keys, Problems, Unreadable


@dataclass
class Inspector:
    """Inspects the parts of a suite; tasks must be inspected before their models."""

    suite: Suite
    problems: Problems
    findings: Findings
    data: Path
    answers: Path | None = None
    tasks: dict[str, Inspection] = field(default_factory=dict)

    def inspect(self, keys: Keys, name: str, task: str, settings: Any) -> None:
        """Inspect a part, or the initial weights for training; `task` selects a model's settings by task."""
        with suppress(Unreadable):
            config = located(settings, self.data, self.suite.folder)
            inspection = Inspection(self.data, self.answers)
            if isinstance(config, ModelConfig) and not self._add_tasks(inspection, name, task, config):
                return
            if isinstance(config, TaskConfig):
                inspection.rows = self._rows(name)
            inspection = self._inspection(inspection, config)
            if isinstance(config, TaskConfig):
                self.tasks[name] = inspection
            self._report(keys, inspection, not isinstance(config, TaskConfig) or self._is_learned(name))

    def _is_learned(self, task: str) -> bool:
        """Return whether a model of the suite is trained on a task and therefore uses its vocabulary."""
        models = [name for name, tasks in self._pairs.items() if task in tasks]
        return any(not self.suite.models[name].at(task).config.is_untrainable() for name in models)

    def _inspection(self, inspection: Inspection, settings: Any) -> Inspection:
        """Return the inspection of a part, run once for all profiles."""
        conditions = (inspection.is_sampled, inspection.is_decoded, inspection.is_scored)
        key = repr(
            (
                type(settings),
                settings,
                [*inspection.tasks],
                inspection.splits,
                inspection.seeds,
                conditions,
                inspection.rows,
            )
        )
        if key not in self.findings.inspections:
            with inspection.noting():
                if isinstance(settings, TrainingBase):
                    check_weights([settings.initial] if settings.initial else [])
                elif settings.inspector:
                    _inspector_of(settings)(settings, inspection)
                else:
                    inspection.skipped += [f"the contents of {path}" for path, _ in paths(vars(settings))]
            self.findings.inspections[key] = inspection
        return self.findings.inspections[key]

    def _report(self, keys: Keys, inspection: Inspection, with_notes: bool) -> None:
        for text in inspection.problems:
            self.problems.add(keys, text)
        place = self.problems.source.place(keys)
        self.findings.warnings |= dict.fromkeys(f"{place}: warning: {text}" for text in inspection.warnings)
        self.findings.notes |= dict.fromkeys(f"{place}: {text}" for text in inspection.notes if with_notes)
        self.findings.skipped |= dict.fromkeys(inspection.skipped)

    def _add_tasks(self, inspection: Inspection, name: str, task: str, model: ModelConfig) -> bool:
        """Add tasks, splits and seeds to the inspection of a model; return whether there is anything to inspect."""
        if not model.inspector:
            return bool(paths(vars(model)))
        by_task = self.suite.models[name].by_task
        pairs = {
            other: splits
            for other, splits in self._pairs.get(name, {}).items()
            if (other if other in by_task else "") == task
        }
        inspection.tasks = {other: self.tasks[other] for other in pairs if other in self.tasks}
        inspection.splits = sorted({split for splits in pairs.values() for split in splits})
        inspection.seeds = [*model.seeds(self.suite.seeds)]
        limits, cells = self.suite.limits, [cell for cell in self._cells if cell.model == name and cell.task in pairs]
        metrics = [self.suite.metrics[metric] for cell in cells for metric in cell.metrics]
        inspection.is_sampled = limits.examples is not None
        inspection.is_decoded = limits.examples is None and any(cell.decoder for cell in cells)
        inspection.is_scored = limits.scored is None and any(metric.needs is Scorer for metric in metrics)
        return bool(pairs)

    def _rows(self, task: str) -> Mapping[str, int]:
        """Return the rows that the planned updates of each model on a task read, where the settings state them."""
        rows = {}
        for name in (name for name, tasks in self._pairs.items() if task in tasks):
            training = self.suite.models[name].at(task).training
            updates = sum(getattr(phase, "updates", None) or 0 for phase in training.phases) or training.updates
            size = training.batch_size if training.batch_unit == "rows" and training.trains else 0
            if updates and isinstance(size, int) and size:
                rows[name] = updates * size
        return rows

    @cached_property
    def _cells(self) -> list[Cell]:
        return [*cells_of(self.suite)]

    @cached_property
    def _pairs(self) -> Mapping[str, Mapping[str, Iterable[str]]]:
        """The splits that cells use, by model and task."""
        pairs: dict[str, dict[str, dict[str, None]]] = {}
        for cell in self._cells:
            if cell.model:
                pairs.setdefault(cell.model, {}).setdefault(cell.task, {})[cell.split] = None
        return pairs


def _inspector_of(config: Config) -> Callable[[Config, Inspection], None]:
    """Return the inspector of a part; raise PluginError if it cannot be imported."""
    module, _, name = config.inspector.partition(":")
    try:
        function: Callable[[Config, Inspection], None] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PluginError(
            f"the inspector of {config.name!r}, {config.inspector}, cannot be imported: {error}."
        ) from error
    return function
