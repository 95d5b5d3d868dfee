"""The schema of `training:`. Unlike the rest of a suite, it is part of cache keys."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)


class Strict(BaseModel):
    """A mapping of a suite; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Select(Strict):
    """Checkpoint selection: the best weights by a metric of the suite, or by the training loss on a split."""

    metric: str = "loss"  #: `loss`, or a metric of the suite
    split: str = "valid"  #: on which they are judged
    decoder: str | None = None  #: for a metric over generated text
    examples: PositiveInt | None = None  #: how many are decoded or scored for it


class Phase(BaseModel):
    """A phase of training; further keys are settings of the model that may change by phase."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    updates: PositiveInt | None = None  #: the phase ends at whichever comes first; without either, as `training` says
    epochs: PositiveInt | None = None  #: counted from the beginning of the phase
    lr: PositiveFloat | None = None  #: by default that of `training`
    reset: tuple[str, ...] = ()  #: modules that start anew, weights and optimizer state


class TrainingConfig(Strict):
    """The training of a model."""

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"  #: of torch, fused
    lr: PositiveFloat = 1e-3  #: learning rate, before `schedule` and `warmup` change it
    betas: tuple[NonNegativeFloat, NonNegativeFloat] = (0.9, 0.999)  #: of adam and adamw
    momentum: NonNegativeFloat = 0.0  #: of sgd
    weight_decay: NonNegativeFloat = 0.0  #: the optimizer's own
    schedule: Literal["constant", "plateau", "inverse-sqrt", "linear", "cosine"] = "constant"  #: after `warmup`
    factor: float = Field(0.5, gt=0, lt=1)  #: of the rate after an evaluation without progress (plateau)
    warmup: NonNegativeInt = 0  #: updates of linear growth
    batch_size: PositiveInt = 32  #: rows of an update, or tokens
    batch_unit: Literal["rows", "tokens"] = "rows"  #: what `batch_size` counts
    epochs: PositiveInt | None = None  #: 10 where neither these nor updates are given
    updates: NonNegativeInt | None = None  #: training stops at whichever comes first; 0 keeps the initial weights
    evaluate_every: PositiveInt | None = None  #: updates between evaluations; one an epoch by default
    patience: PositiveInt | None = None  #: evaluations without progress before training stops
    clip: PositiveFloat | None = None  #: of the global gradient norm
    select: Select = Select()  #: which weights are kept
    phases: tuple[Phase, ...] = ()  #: stretches of training, one after the other; by default one
    initial: Path | None = None  #: a safetensors file of weights to begin with
    together: bool = False  #: all seeds as one model of several copies, on the batches of the first seed

    @model_validator(mode="after")
    def _goes_together(self) -> TrainingConfig:
        alone = {
            "patience": self.patience is not None,
            "schedule: plateau": self.schedule == "plateau",
            "reset": any(phase.reset for phase in self.phases),
        }
        if self.together and any(alone.values()):
            name = next(name for name, given in alone.items() if given)
            raise ValueError(
                f"seeds trained together share every update and learning rate, so `{name}` is impossible. "
                "Leave it out, or set `together: false`"
            )
        return self

    @model_validator(mode="after")
    def _fits(self) -> TrainingConfig:
        if self.schedule == "inverse-sqrt" and not self.warmup:
            raise ValueError("schedule inverse-sqrt requires warmup, such as `warmup: 4000`")
        return self
