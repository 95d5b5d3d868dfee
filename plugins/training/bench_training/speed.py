"""How fast a training is, and how much memory it needs, as calibrations measure it."""

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveFloat

from bench_core.storage.costs import Cost


class Memory(BaseModel):
    """The bytes that a training holds at most, by what they are for."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    weights: NonNegativeInt  #: with buffers, and the copy of the best ones
    optimizer: NonNegativeInt  #: its state
    update: NonNegativeInt  #: gradients and activations at the peak of an update
    available: NonNegativeInt  #: on the device, when it was measured
    by_dry_run: bool  #: on the meta device; else from updates with few rows

    @property
    def total(self) -> int:
        """Return the bytes that a training needs."""
        return self.weights + self.optimizer + self.update

    @property
    def fits(self) -> bool:
        """Return whether that was available."""
        return self.total <= self.available


class TrainingSpeed(Cost):
    """How long the pieces of a training take, in CPU seconds; in wall-clock ones on a GPU and in files of 0.2."""

    setup: NonNegativeFloat  #: loading the task and building the model
    updates: tuple[NonNegativeFloat, ...]  #: an update of each phase; 0 where there are none
    evaluation: NonNegativeFloat  #: an evaluation
    updates_per_epoch: NonNegativeInt
    measured: NonNegativeInt  #: updates that were timed
    share: PositiveFloat  #: of the rows of a batch that were used
    memory: Memory
    cpu_rate: PositiveFloat | None = None  #: CPU seconds per wall-clock second while timed, if in CPU seconds
    load: NonNegativeFloat | None = None  #: of the machine, averaged over the last minute
