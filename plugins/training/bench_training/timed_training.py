"""Times the pieces of a training, built as its stage builds it.

All that is used of the trainer is here: how it is built, its batches, its update, and its evaluation.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from statistics import median
from typing import Any

import torch

from bench_core.computing.clocks import cpu_seconds
from bench_core.computing.context import StageContext
from bench_core.data import Batch
from bench_core.errors import TrainingError
from bench_core.planning.stages import Stage
from bench_core.random_numbers import Noise
from bench_training.excerpt import Excerpt, elements, share_of
from bench_training.memory import LiveBytes
from bench_training.optimizers import set_peak
from bench_training.schedules import LearningRates
from bench_training.settings import Phase, Schedule
from bench_training.stages import TrainingSetup
from bench_training.together import JointTrainer, Stack, stacked
from bench_training.trainer import Trainer
from bench_training.training_length import phases_of

RATE = 1e-3  #: of the learning rate: the weights stay near their first values, and nothing diverges
FEWEST, MOST = 3, 200  #: updates that are timed
PHASE = frozenset(Phase.model_fields)  #: keys of a phase that are no settings of the model


@dataclass(frozen=True)
class Epoch:
    """The size of an epoch of the training split."""

    batches: int
    elements: int  # of all batches
    largest: Batch  # by its elements; of seeds that train as one, that of the first


class TimedTraining:
    """A training that is timed, but not run: a few updates, and an evaluation of a part of the split.

    What is measured are CPU seconds, on a GPU wall-clock seconds. The time that this may take is wall-clock time.
    """

    def __init__(self, context: StageContext, stage: Stage, seconds: float) -> None:
        self.budget = seconds
        self.setup = TrainingSetup(context, stage)
        self.stage, self.device = stage, self.setup.device
        self.clock: Callable[[], float] = time.perf_counter if self.device.type == "cuda" else cpu_seconds
        self.spent = self.wall = 0.0  # seconds of both clocks, while the model was built and updated
        select = stage.settings["training"]["select"]
        rows = select.get("examples") if not isinstance(select["metric"], str) else None
        self.task = self.setup.task
        self.judged = self.setup.task = Excerpt(self.task, seconds / 2, rows, self.clock)  # to select checkpoints

    @property
    def cpu_rate(self) -> float | None:
        """Return the CPU seconds per wall-clock second of what was timed; None on a GPU."""
        return None if self.device.type == "cuda" else max(self.spent, 1e-9) / max(self.wall, 1e-9)

    def build(self) -> float:
        """Build the models and their trainer; return the seconds."""
        return self._timed(self._build)

    def _build(self) -> None:
        seeds = self.stage.settings.get("together") or [self.stage.settings["seed"]]
        self.copies = len(seeds)
        noises, setup = [Noise(seed).fork("train") for seed in seeds], self.setup
        models = [setup.model(noise) for noise in noises]
        selections = [setup.selection(noise) for noise in noises]
        own = (self.task, setup.config, noises[0], self.device, selections[0], setup.precision)
        if self.stage.about.joint:
            self.trainer: Trainer = JointTrainer(Stack(models), *own, noises=noises, selections=selections)
        else:
            self.trainer = Trainer(models[0], *own, stop=setup.stop(noises[0]))
        self.trainer.begin()
        self.trainer.rates = LearningRates(self.trainer.optimizers, (Schedule(),), 0, 1)
        for optimizer in self.trainer.optimizers:
            set_peak(optimizer, setup.config.lr * RATE)

    def epoch(self) -> Epoch:
        """Return the size of an epoch."""
        sizes, largest = [], None
        for batch in self.batches():
            sizes.append(elements(batch))
            largest = batch if largest is None or sizes[-1] > elements(largest) else largest
        if largest is None:
            raise TrainingError("the training split has no batches. Is it empty?")
        return Epoch(len(sizes), sum(sizes), largest if self.copies == 1 else largest.change(lambda one: one[0]))

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the first epoch, in their order."""
        return self.trainer._epoch(0)

    def update_bytes(self, batch: Batch) -> int:
        """Return the bytes of gradients and activations of an update, the most of all phases."""
        batch = batch if self.copies == 1 else stacked([batch] * self.copies)
        found = 0
        for settings in self.phases():
            with LiveBytes() as counted:
                self._update(batch, settings)
            found = max(found, counted.peak)
        return found

    def updates(self, settings: Mapping[str, Any], share: float, fewest: int = FEWEST) -> tuple[float, int]:
        """Time updates of a phase on a share of the rows of its batches, at least `fewest` after a first one.

        Returns the seconds an element, the median of all updates, which others at work on the machine disturb little,
        and how many updates there were.
        """
        found = list[float]()
        parts = (self._part(batch, share) for _ in repeat(None) for batch in self.batches())
        self._update(next(parts), settings)
        end = time.perf_counter() + self.budget
        for part in islice(parts, MOST):
            found.append(self._timed(partial(self._update, part, settings)) / elements(part))
            if len(found) >= fewest and (time.perf_counter() >= end or fewest < FEWEST):
                break
        return max(median(found), 1e-12), len(found)

    def every_phase(self) -> list[dict[str, Any]]:
        """Return the settings of the model in each phase."""
        phases = phases_of(self.stage.settings["training"])
        return [{name: value for name, value in phase.items() if name not in PHASE} for phase in phases]

    def phases(self) -> list[dict[str, Any]]:
        """Return the settings of the model in each phase, those that are the same once."""
        every = self.every_phase()
        return [one for number, one in enumerate(every) if one not in every[:number]]

    def reading(self) -> float:
        """Return the seconds that the task takes for a batch."""
        begun, number = self.clock(), 0
        for _ in islice(self.batches(), MOST):
            number += 1
        return (self.clock() - begun) / max(1, number)

    def evaluation(self, share: float) -> float:
        """Return the seconds of an evaluation, by a part of its split, and a share of the rows of its batches."""
        self.judged.part, begun = share, self._now()
        self.trainer._evaluate()
        return (self._now() - begun - self.judged.counting) / self.judged.share

    def _part(self, batch: Batch, share: float) -> Batch:
        """Return the first rows of a batch; of those of copies, which are stacked, the first rows of each."""
        if self.copies == 1:
            return share_of(batch, share)
        rows = max(1, round(batch.gold.shape[1] * share))
        return batch.change(lambda one: one[:, :rows])

    def _update(self, batch: Batch, settings: Mapping[str, Any]) -> None:
        self.trainer._update(batch, Phase(), settings)

    def _timed(self, work: Callable[[], None]) -> float:
        """Return the seconds of work, and add them to both clocks."""
        begun, wall = self._now(), time.perf_counter()
        work()
        seconds = self._now() - begun
        self.spent, self.wall = self.spent + seconds, self.wall + time.perf_counter() - wall
        return seconds

    def _now(self) -> float:
        """Return the time once the device has done what it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return self.clock()
