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
    split: str = "valid"  #: the split on which the metric is computed
    decoder: str | None = None  #: the decoder, for a metric of generated text
    examples: PositiveInt | None = None  #: how many examples are decoded or scored


class Phase(BaseModel):
    """A phase of training; further keys are settings of the model that may change by phase."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    updates: PositiveInt | None = None  #: ends at whichever comes first; without either, as in `training`
    epochs: PositiveInt | None = None  #: counted from the start of the phase
    lr: PositiveFloat | None = None  #: learning rate; by default that of `training`
    reset: tuple[str, ...] = ()  #: modules to reinitialize: weights and optimizer state


class TrainingConfig(Strict):
    """The training of a model."""

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"  #: the fused implementation of torch
    lr: PositiveFloat = 1e-3  #: peak learning rate, see `schedule` and `warmup`
    betas: tuple[NonNegativeFloat, NonNegativeFloat] = (0.9, 0.999)  #: of adam and adamw
    momentum: NonNegativeFloat = 0.0  #: of sgd
    weight_decay: NonNegativeFloat = 0.0  #: as implemented by the optimizer
    schedule: Literal["constant", "plateau", "inverse-sqrt", "linear", "cosine"] = "constant"  #: after `warmup`
    factor: float = Field(0.5, gt=0, lt=1)  #: of `lr`, after an evaluation without improvement (plateau)
    warmup: NonNegativeInt = 0  #: updates of linear warm-up
    batch_size: PositiveInt = 32  #: rows or tokens per update
    batch_unit: Literal["rows", "tokens"] = "rows"  #: the unit of `batch_size`
    epochs: PositiveInt | None = None  #: 10 if neither epochs nor updates are given
    updates: NonNegativeInt | None = None  #: training stops at whichever comes first; 0 keeps the initial weights
    evaluate_every: PositiveInt | None = None  #: updates between evaluations; by default one evaluation per epoch
    patience: PositiveInt | None = None  #: early stopping after this many evaluations without improvement
    clip: PositiveFloat | None = None  #: maximum norm of the gradient
    select: Select = Select()  #: which checkpoint is kept
    phases: tuple[Phase, ...] = ()  #: phases of training in sequence; by default a single one
    initial: Path | None = None  #: a safetensors file of initial weights
    together: bool = False  #: train all seeds at once with vmap, on the batches of the first seed

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
