"""The speed and memory of a training run, as measured by calibration."""

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveFloat

from bench_core.storage.costs import Cost


class TrainingMemory(BaseModel):
    """The peak memory of a training run in bytes, by purpose."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    weights: NonNegativeInt  #: weights, buffers and the copy of the best weights
    optimizer: NonNegativeInt  #: optimizer state
    update: NonNegativeInt  #: peak of gradients and activations in an update
    available: NonNegativeInt  #: available memory of the device during the measurement
    by_dry_run: bool  #: whether measured on the meta device; otherwise, with updates on few rows

    @property
    def total(self) -> int:
        """The bytes that training needs."""
        return self.weights + self.optimizer + self.update

    @property
    def fits(self) -> bool:
        """Whether this memory was available."""
        return self.total <= self.available


class TrainingSpeed(Cost):
    """The duration of the parts of a training run in CPU seconds; wall-clock seconds on a GPU and in version 0.2."""

    setup: NonNegativeFloat  #: loading the task and building the model
    updates: tuple[NonNegativeFloat, ...]  #: one update in each phase; 0 in phases without updates
    evaluation: NonNegativeFloat  #: one evaluation
    updates_per_epoch: NonNegativeInt
    measured: NonNegativeInt  #: number of updates that were timed
    share: PositiveFloat  #: share of a batch's rows that was used for timing
    memory: TrainingMemory
    cpu_rate: PositiveFloat | None = None  #: CPU seconds per wall-clock second; None for wall-clock measurements
    load: NonNegativeFloat | None = None  #: load of the machine, averaged over the last minute
