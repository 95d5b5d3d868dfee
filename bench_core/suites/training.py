"""Where the weights of a model come from: what the core knows of `training:`, whose schema is that of what trains."""

from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from bench_core.registry import stage_kinds

AUTO = {"rows": 32, "tokens": 4096}  #: the size of batches that are not those of updates, where these are `auto`


class Strict(BaseModel):
    """A mapping of a suite; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Select(Strict):
    """Checkpoint selection: the best weights by a metric of the suite, or by the training loss on a split."""

    metric: str = "loss"  #: `loss`, that of training in evaluation mode, or a metric of the suite
    split: str = "valid"  #: the split on which the metric is computed
    decoder: str | None = None  #: the decoder, for a metric of generated text
    examples: PositiveInt | None = None  #: how many examples are decoded or scored


class TrainingBase(BaseModel):
    """Where the weights of a model come from; unlike the rest of a suite, it is part of cache keys."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False, defer_build=True)

    mode: Literal["train", "evaluate"] = "train"  #: `evaluate` uses the initial weights, and reads no data for them
    updates: NonNegativeInt | None = None  #: training stops at whichever comes first; 0 keeps the initial weights
    phases: tuple[Any, ...] = ()  #: phases of training in sequence; by default a single one
    batch_size: PositiveInt | Literal["auto"] = 32  #: rows or tokens per update; `auto`: as many as memory holds
    batch_unit: Literal["rows", "tokens"] = "rows"  #: the unit of `batch_size`
    select: Select = Select()  #: which checkpoint is kept
    stop: Select | None = None  #: early stopping by another metric
    initial: Path | None = None  #: a safetensors file of initial weights
    together: bool = False  #: train all seeds at once with vmap, each on batches in its own order

    @property
    def trains(self) -> bool:
        """Return whether there are updates."""
        return self.mode == "train" and (self.updates != 0 or bool(self.phases))

    @property
    def size(self) -> tuple[int, Literal["rows", "tokens"]]:
        """Return the size of batches that are not those of updates, and its unit."""
        return AUTO[self.batch_unit] if self.batch_size == "auto" else self.batch_size, self.batch_unit

    @property
    def names_weights(self) -> bool:
        """Return whether it names weights or modules of its model, which are only known once that is built."""
        return False

    def classes(self) -> Iterator[tuple[str, str]]:
        """Yield the classes outside of torch that it names, as `module:Class`, each with what it is."""
        yield from ()


def training_schema() -> type[TrainingBase]:
    """Return the class of `training:`, that of the installed kind of stages that train; what all have if none is."""
    named = [kind.schema for kind in stage_kinds().values() if kind.schema]
    return resolve_name(named[0]) if named else TrainingBase
