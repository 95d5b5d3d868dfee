"""Performs stages in one process, so that no stage can affect the next."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench_core.computing.building import built
from bench_core.computing.context import StageContext, fingerprint
from bench_core.computing.process_state import defined_state
from bench_core.data import TaskInfo
from bench_core.errors import PluginError
from bench_core.planning.path_settings import placed
from bench_core.planning.stages import Stage

SHOWN = 3  #: names of weights in a message


class StageRunner(StageContext):
    """Performs stages; keeps the last task and model loaded for the next stages.

    No stage sees changes by another: examples are copied, a model is compared with its fingerprint, and after a
    training or a failure everything is loaded again.
    """

    def perform(self, stage: Stage, folder: Path) -> dict[str, Any]:
        """Perform a stage into a folder; return counts for the costs, such as examples and tokens.

        Raises PluginError if the stage changed the weights of a model that it only reads.
        """
        places = stage.settings.get("places", {})
        own = {name: value for name, value in stage.settings.items() if name != "places"}
        stage = replace(stage, settings={**placed(own, places), "places": places})
        with self._apart(stage):
            counts = work_of(stage.kind)(self, stage, folder.absolute())  # a part may change the working directory
            self._check_unchanged(stage)
        return counts

    def build(self, stage: Stage) -> None:
        """Build the model of a training on the meta device, where nothing is allocated; its errors propagate."""
        import torch

        info = TaskInfo(**self.input(stage, "task").json("facts.json"))
        settings = placed(stage.settings["model"], stage.settings.get("places", {}))
        with self._apart(stage):
            known = self.with_files(info, settings)
            with torch.device("meta"):
                built("model", settings, known)

    @contextmanager
    def _apart(self, stage: Stage) -> Iterator[None]:
        """Give a stage a process in a defined state, and drop loaded objects that it may have changed."""
        if "threads" in stage.settings:
            import torch  # noqa: F401 (so that its state is defined)
        process = os.getpid()
        threads, seed = stage.settings.get("threads", 1), stage.settings.get("seed", 0)
        try:
            with defined_state(threads, seed, self.home, self._changed):
                self.begun()
                yield
        except BaseException:
            self.kept.clear()
            raise
        finally:
            if os.getpid() != process:  # a part forked, and its child came back from there
                os._exit(1)
        if stage.kind in ("train", "together"):
            self.kept.clear()

    def _changed(self, names: list[str]) -> None:
        self.warn(f"it changed {', '.join(names)}, which is restored before the next stage.")

    def _check_unchanged(self, stage: Stage) -> None:
        """Raise PluginError if a stage changed the weights of its model; drop a model changed in other ways."""
        if "model" not in stage.inputs:
            return
        model, before = self.kept["model"][1]
        after = fingerprint(model)
        if names := before.changed(after):
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise PluginError(
                f"it changed the model's weights ({', '.join(names[:SHOWN])}{more}), which are to be read alone. "
                "Compute with copies of them."
            )
        if before != after:
            del self.kept["model"]


def work_of(kind: str) -> Callable[[StageContext, Stage, Path], dict[str, Any]]:
    """Return the function of a kind of stage; torch is imported only for training stages."""
    if kind in ("train", "together"):
        from bench_core.computing import training_stages

        return training_stages.train if kind == "train" else training_stages.together
    from bench_core.computing import stages

    found: Callable[[StageContext, Stage, Path], dict[str, Any]] = getattr(stages, kind)
    return found
