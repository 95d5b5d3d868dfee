"""Performing stages in a process, each with the function of its kind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeAlias

from bench_core.computing.building import built_on_meta
from bench_core.computing.context import StageContext
from bench_core.computing.isolation import apart
from bench_core.computing.loading import with_files
from bench_core.data import TaskInfo
from bench_core.planning.path_settings import placed
from bench_core.planning.stages import Stage
from bench_core.stage_kinds import StageKind, call
from bench_core.storage.costs import Cost

Work: TypeAlias = Callable[[StageContext, Stage, Path], dict[str, Any]]


class StageRunner(StageContext):
    """Performs stages, keeping the last task and model loaded for later stages.

    Stages are isolated from each other: examples are copied, models are compared with their fingerprints, and after
    training or a failure everything is reloaded.
    """

    def perform(self, stage: Stage, folder: Path) -> dict[str, Any]:
        """Perform a stage, writing to a folder; return counts for the costs, such as examples and tokens."""
        stage = replace(stage, settings=placed(stage.settings, stage.places))
        work, folder = work_of(stage.about), folder.absolute()  # a part may change the directory
        with self._alone(stage):
            return work(self, stage, folder)

    def build(self, stage: Stage) -> None:
        """Build the model of a training stage on the meta device, without allocating memory for it.

        Errors in the model, and in training settings that name missing weights or modules, propagate.
        """
        info = TaskInfo(**self.input(stage, "task").json("task_info.json"))
        settings = placed(stage.settings["model"], stage.places)
        with self._alone(stage):
            model = built_on_meta(settings, with_files(self, info, settings))
            if stage.about.fit:
                call(stage.about.fit, model, stage.settings)

    def calibrate(self, stage: Stage, seconds: float) -> Cost:
        """Measure the speed of a stage within a few times `seconds`; errors in the stage propagate."""
        stage = replace(stage, settings=placed(stage.settings, stage.places))
        with self._alone(stage):
            cost: Cost = stage.about.forecaster.calibrate(self, stage, seconds)  # type: ignore[union-attr]
            return cost

    @contextmanager
    def _alone(self, stage: Stage) -> Iterator[None]:
        """Isolate a stage; if it trains or initializes a model, drop loaded objects, which it may have changed."""
        with apart(self, stage):
            yield
        if stage.about.gives_weights:
            self.loaded.clear()


def work_of(kind: StageKind) -> Work:
    """Return the function of a stage kind, importing torch if the kind needs it."""
    if kind.needs_torch:
        import torch  # noqa: F401
    work: Work = resolve_name(kind.function)
    return work
