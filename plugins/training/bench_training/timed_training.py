"""Times the pieces of a training run that is built like its stage: construction, batches, updates, and evaluation."""

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
from bench_core.random_numbers import Rng
from bench_training.excerpt import Excerpt, elements, share_of
from bench_training.memory import LiveBytes
from bench_training.optimizers import set_peak
from bench_training.schedules import LearningRates
from bench_training.settings import Phase, Schedule
from bench_training.stages import TrainingSetup
from bench_training.trainer import Trainer
from bench_training.training_length import phases_of
from bench_training.vmapped import JointTrainer, Stack, stacked

LR_FACTOR = 1e-3  #: factor of learning rates that keeps weights near their initial values, so nothing diverges
MIN_UPDATES, MAX_UPDATES = 3, 200  #: limits for the number of timed updates
PHASE = frozenset(Phase.model_fields)  #: keys of a phase that are not model settings


@dataclass(frozen=True)
class Epoch:
    """The size of an epoch of the training split."""

    batches: int
    elements: int  # sum of the batches' elements
    largest: Batch  # batch with the most elements; for vmapped seeds, the part of the first seed


class TimedTraining:
    """Times a few updates and an evaluation on a part of the split, without running the whole training.

    Measures CPU seconds, or wall-clock seconds on a GPU. The time limit `seconds` is wall-clock time.
    """

    def __init__(self, context: StageContext, stage: Stage, seconds: float) -> None:
        self.budget = seconds
        self.setup = TrainingSetup(context, stage)
        self.stage, self.device = stage, self.setup.device
        self.clock: Callable[[], float] = time.perf_counter if self.device.type == "cuda" else cpu_seconds
        self.spent = self.wall = 0.0  # seconds on both clocks, for building and updating the model
        select = stage.settings["training"]["select"]
        rows = select.get("examples") if not isinstance(select["metric"], str) else None
        self.task = self.setup.task
        self.excerpt = self.setup.task = Excerpt(self.task, seconds / 2, rows, self.clock)  # used in evaluations

    @property
    def cpu_rate(self) -> float | None:
        """CPU seconds per wall-clock second in timed work; None on a GPU."""
        return None if self.device.type == "cuda" else max(self.spent, 1e-9) / max(self.wall, 1e-9)

    def build(self) -> float:
        """Build the models and their trainer; return the duration in seconds."""
        return self._time(self._build)

    def _build(self) -> None:
        seeds = self.stage.settings.get("vmapped") or [self.stage.settings["seed"]]
        self.copies = len(seeds)
        rngs, setup = [Rng(seed).fork("train") for seed in seeds], self.setup
        models = [setup.model(rng) for rng in rngs]
        selections = [setup.selection(rng) for rng in rngs]
        arguments = (self.task, setup.config, rngs[0], self.device, selections[0], setup.precision)
        if self.stage.about.joint:
            self.trainer: Trainer = JointTrainer(Stack(models), *arguments, rngs=rngs, selections=selections)
        else:
            self.trainer = Trainer(models[0], *arguments, stop=setup.stop(rngs[0]))
        self.trainer.begin()
        self.trainer.rates = LearningRates(self.trainer.optimizers, (Schedule(),), 0, 1)
        for optimizer in self.trainer.optimizers:
            set_peak(optimizer, setup.config.lr * LR_FACTOR)

    def epoch(self) -> Epoch:
        """Measure an epoch."""
        sizes, largest = [], None
        for batch in self.batches():
            sizes.append(elements(batch))
            largest = batch if largest is None or sizes[-1] > elements(largest) else largest
        if largest is None:
            raise TrainingError("the training split has no batches. Is it empty?")
        largest = largest if self.copies == 1 else largest.change(lambda tensor: tensor[0])
        return Epoch(len(sizes), sum(sizes), largest)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the first epoch in order."""
        return self.trainer._epoch(0)

    def update_bytes(self, batch: Batch) -> int:
        """Return the bytes of gradients and activations in an update: the maximum over phases."""
        batch = batch if self.copies == 1 else stacked([batch] * self.copies)
        most = 0
        for settings in self.phases():
            with LiveBytes() as live:
                self._update(batch, settings)
            most = max(most, live.peak)
        return most

    def updates(self, settings: Mapping[str, Any], share: float, fewest: int = MIN_UPDATES) -> tuple[float, int]:
        """Time at least `fewest` updates of a phase, after a warm-up update, on a share of the rows of its batches.

        Returns the median seconds per element, which is robust to other load on the machine, and the number of
        updates.
        """
        timings = list[float]()
        parts = (self._part(batch, share) for _ in repeat(None) for batch in self.batches())
        self._update(next(parts), settings)
        end = time.perf_counter() + self.budget
        for part in islice(parts, MAX_UPDATES):
            timings.append(self._time(partial(self._update, part, settings)) / elements(part))
            if len(timings) >= fewest and (time.perf_counter() >= end or fewest < MIN_UPDATES):
                break
        return max(median(timings), 1e-12), len(timings)

    def every_phase(self) -> list[dict[str, Any]]:
        """Return the model settings of each phase."""
        phases = phases_of(self.stage.settings["training"])
        return [{name: value for name, value in phase.items() if name not in PHASE} for phase in phases]

    def phases(self) -> list[dict[str, Any]]:
        """Return the distinct model settings of all phases."""
        every = self.every_phase()
        return [settings for number, settings in enumerate(every) if settings not in every[:number]]

    def reading(self) -> float:
        """Return the seconds for reading a batch."""
        begun, number = self.clock(), 0
        for _ in islice(self.batches(), MAX_UPDATES):
            number += 1
        return (self.clock() - begun) / max(1, number)

    def evaluation(self, share: float) -> float:
        """Return the seconds of an evaluation, extrapolated from a share of the rows in a part of the split."""
        self.excerpt.part, begun = share, self._now()
        self.trainer._evaluate()
        return (self._now() - begun - self.excerpt.counting) / self.excerpt.share

    def _part(self, batch: Batch, share: float) -> Batch:
        """Return the first rows of a batch, or of each copy in a stacked batch."""
        if self.copies == 1:
            return share_of(batch, share)
        rows = max(1, round(batch.gold.shape[1] * share))
        return batch.change(lambda tensor: tensor[:, :rows])

    def _update(self, batch: Batch, settings: Mapping[str, Any]) -> None:
        self.trainer._update(batch, Phase(), settings)

    def _time(self, work: Callable[[], None]) -> float:
        """Perform work and return its seconds; add them to both clocks."""
        begun, wall = self._now(), time.perf_counter()
        work()
        seconds = self._now() - begun
        self.spent, self.wall = self.spent + seconds, self.wall + time.perf_counter() - wall
        return seconds

    def _now(self) -> float:
        """Return the time after synchronizing with the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return self.clock()
