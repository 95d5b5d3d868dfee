"""The part of `training:` that the core reads: where the weights of a model come from. A plugin adds the rest."""

from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from bench_core.registry import stage_kinds

AUTO = {"rows": 32, "tokens": 4096}  #: batch size of evaluations if `batch_size` is `auto`


class Strict(BaseModel):
    """A mapping of a suite; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Select(Strict):
    """Checkpoint selection: by a metric of the suite, or by the loss on a split."""

    metric: str = "loss"  #: a metric of the suite, or `loss`: the training loss in evaluation mode
    split: str = "valid"  #: the split on which the metric is computed
    decoder: str | None = None  #: the decoder, for metrics of generated text
    examples: PositiveInt | None = None  #: the number of examples to decode or score; all by default


class TrainingBase(BaseModel):
    """Settings that determine a model's weights; unlike the rest of a suite, they are part of cache keys."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False, defer_build=True)

    mode: Literal["train", "evaluate"] = "train"  #: `evaluate` uses the initial weights without reading data for them
    updates: NonNegativeInt | None = None  #: maximum number of updates; 0 keeps the initial weights
    phases: tuple[Any, ...] = ()  #: training phases, in order; by default a single phase
    batch_size: PositiveInt | Literal["auto"] = 32  #: rows or tokens per update; `auto`: as many as fit in memory
    batch_unit: Literal["rows", "tokens"] = "rows"  #: the unit of `batch_size`
    select: Select = Select.model_construct()  #: checkpoint selection
    stop: Select | None = None  #: early stopping, by a separate metric
    initial: Path | None = None  #: a safetensors file of initial weights
    vmap_seeds: bool = False  #: train all seeds at once with vmap, each on batches in its own order

    @property
    def trains(self) -> bool:
        """Return whether the model is updated."""
        return self.mode == "train" and (self.updates != 0 or bool(self.phases))

    @property
    def size(self) -> tuple[int, Literal["rows", "tokens"]]:
        """Return the batch size of evaluations, and its unit."""
        return AUTO[self.batch_unit] if self.batch_size == "auto" else self.batch_size, self.batch_unit

    @property
    def names_weights(self) -> bool:
        """Return whether a setting names weights or modules of the model, which must be built to check them."""
        return False

    def classes(self) -> Iterator[tuple[str, str]]:
        """Yield a description and `module:Class` for each class outside of torch that a setting names."""
        yield from ()


def training_schema() -> type[TrainingBase]:
    """Return the schema of `training:` from the installed training stages, or `TrainingBase` if there are none."""
    schemas = [kind.schema for kind in stage_kinds().values() if kind.schema]
    return resolve_name(schemas[0]) if schemas else TrainingBase
