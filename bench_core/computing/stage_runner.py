"""Performs stages in one process, each by the function of its kind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeAlias

from bench_core.computing.building import built
from bench_core.computing.context import StageContext
from bench_core.computing.isolation import apart, isolated
from bench_core.computing.loading import with_files
from bench_core.data import TaskInfo
from bench_core.planning.path_settings import placed
from bench_core.planning.stages import Stage
from bench_core.stage_kinds import StageKind, call
from bench_core.storage.costs import Cost

Work: TypeAlias = Callable[[StageContext, Stage, Path], dict[str, Any]]


class StageRunner(StageContext):
    """Performs stages; keeps the last task and model loaded for the next stages.

    No stage sees changes by another: examples are copied, a model is compared with its fingerprint, and after a
    training or a failure everything is loaded again.
    """

    def perform(self, stage: Stage, folder: Path) -> dict[str, Any]:
        """Perform a stage into a folder; return counts for the costs, such as examples and tokens."""
        stage = replace(stage, settings=placed(stage.settings, stage.places))
        with self._alone(stage):
            return isolated(work_of(stage.about), self, stage, folder.absolute())  # a part may change the directory

    def build(self, stage: Stage) -> None:
        """Build the model of a training on the meta device, where nothing is allocated; its errors propagate.

        So do errors of training settings that name weights or modules that the model lacks.
        """
        import torch

        info = TaskInfo(**self.input(stage, "task").json("facts.json"))
        settings = placed(stage.settings["model"], stage.places)
        with self._alone(stage), apart(self, stage):
            known = with_files(self, info, settings)
            with torch.device("meta"):
                model = built("model", settings, known)
            if stage.about.fit:
                call(stage.about.fit, model, stage.settings)

    def calibrate(self, stage: Stage, seconds: float) -> Cost:
        """Measure how fast a stage is, within a few times `seconds`; its errors propagate."""
        stage = replace(stage, settings=placed(stage.settings, stage.places))
        with self._alone(stage), apart(self, stage):
            found: Cost = stage.about.forecaster.calibrate(self, stage, seconds)  # type: ignore[union-attr]
            return found

    @contextmanager
    def _alone(self, stage: Stage) -> Iterator[None]:
        """Drop loaded objects after a stage that gives a model its weights, and may have changed them."""
        yield
        if stage.about.gives_weights:
            self.loaded.clear()


def work_of(kind: StageKind) -> Work:
    """Return the function of a kind of stage; torch is imported for those that compute with it."""
    if kind.needs_torch:
        import torch  # noqa: F401
    found: Work = resolve_name(kind.function)
    return found
