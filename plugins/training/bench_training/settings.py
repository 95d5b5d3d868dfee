"""The settings of `training:`. Unlike the rest of a suite, they are part of cache keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from bench_core.suites.axes import Names
from bench_core.suites.training import Select, Strict, TrainingBase

#: Optimizers whose update of a weight depends on that weight alone: they train stacked copies as each alone.
ELEMENTWISE = {
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd",
}  # fmt: skip


class Open(BaseModel):
    """A mapping of a suite with keys of its own, and others."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False, defer_build=True)

    @property
    def more(self) -> Mapping[str, Any]:
        """Return the other keys."""
        return self.model_extra or {}


def _named(value: Any) -> Any:
    """Read a bare word as `{name: WORD}`."""
    return {"name": value} if isinstance(value, str) else value


def _schedules(value: Any) -> Any:
    """Read one schedule as a sequence of one."""
    return [_named(one) for one in (value if isinstance(value, list | tuple) else [value])]


class Stop(Select):
    """Early stopping, by a metric that need not be that of `select`."""

    patience: PositiveInt = 1  #: training stops after this many evaluations without progress
    change: NonNegativeFloat = 0.0  #: the least change of the metric that is progress


class Optimizer(Open):
    """An optimizer; further keys are settings of its class, as its signature names them."""

    name: str = "adam"  #: a class of `torch.optim`, in any case of letters, or `package.module:Class`


OptimizerSetting: TypeAlias = Annotated[Optimizer, BeforeValidator(_named, json_schema_input_type=str | Optimizer)]


class Group(Open):
    """Weights with settings of their own; further keys are settings of the optimizer."""

    match: Names = Field(min_length=1)  #: patterns of names of weights, such as `embed.*`; the first group counts
    lr: NonNegativeFloat | None = None  #: peak learning rate, by default that of all; 0 leaves them as they are
    optimizer: OptimizerSetting | None = None  #: another one, such as `adamw` for what `muon` does not train


class Schedule(Open):
    """A schedule of learning rates; further keys are settings of its class, as its signature names them."""

    name: str = "constant"  #: constant, plateau, inverse-sqrt, linear, cosine, or a class of torch, such as `StepLR`
    updates: PositiveInt | None = None  #: its length, if others follow
    epochs: PositiveInt | None = None  #: likewise
    share: float | None = Field(None, gt=0, le=1)  #: likewise, of all updates; the first one includes the warm-up
    every: Literal["update", "epoch"] = "update"  #: when a class of torch makes a step


class Clip(Strict):
    """Gradient clipping, in one of three ways."""

    norm: PositiveFloat | None = None  #: maximum norm of the whole gradient
    each: PositiveFloat | None = None  #: maximum norm of the gradient of each weight matrix or vector
    value: PositiveFloat | None = None  #: maximum absolute value of every entry

    @model_validator(mode="after")
    def _one(self) -> Clip:
        if sum(value is not None for _, value in self) != 1:
            raise ValueError("clipping is by one of `norm`, `each` and `value`, such as `clip: {value: 0.5}`")
        return self


class Averaging(Strict):
    """Averaged weights, which are evaluated, selected and stored in place of the last ones."""

    kind: Literal["exponential", "uniform", "checkpoints"] = "exponential"  #: over updates, or over evaluations
    decay: float = Field(0.999, gt=0, lt=1)  #: exponential: the weight of the old average at every update
    start: NonNegativeInt = 0  #: exponential, uniform: updates before the average begins
    last: PositiveInt = 5  #: checkpoints: the mean of the weights at so many evaluations, the last ones


ScheduleSetting: TypeAlias = Annotated[
    tuple[Schedule, ...],
    BeforeValidator(_schedules, json_schema_input_type=str | Schedule | list[str | Schedule]),
    Field(min_length=1),
]
ClipSetting: TypeAlias = Annotated[
    Clip,
    BeforeValidator(
        lambda value: {"norm": value} if isinstance(value, int | float) else value,
        json_schema_input_type=PositiveFloat | Clip,
    ),
]
AveragingSetting: TypeAlias = Annotated[
    Averaging,
    BeforeValidator(
        lambda value: {"kind": value} if isinstance(value, str) else value,
        json_schema_input_type=Literal["exponential", "uniform", "checkpoints"] | Averaging,
    ),
]


class Phase(Open):
    """A phase of training; further keys are settings of the model that may change by phase."""

    updates: PositiveInt | None = None  #: ends at whichever comes first; without either, as in `training`
    epochs: PositiveInt | None = None  #: counted from the start of the phase
    lr: PositiveFloat | None = None  #: learning rate; by default that of `training`
    warmup: NonNegativeInt | None = None  #: updates of linear warm-up from the start of the phase
    schedule: ScheduleSetting | None = None  #: from the start of the phase; by default that of `training` goes on
    optimizer: OptimizerSetting | None = None  #: a new one, for this phase
    reset: tuple[str, ...] = ()  #: modules to reinitialize: weights and optimizer state

    @property
    def own_schedule(self) -> bool:
        """Return whether learning rates are counted from the start of the phase."""
        return self.schedule is not None or self.warmup is not None


class TrainingConfig(TrainingBase):
    """The training of a model."""

    model_config = ConfigDict(extra="forbid")

    optimizer: OptimizerSetting = Optimizer()  #: by name, or a mapping with its settings
    lr: PositiveFloat = 1e-3  #: peak learning rate, see `schedule` and `warmup`
    groups: tuple[Group, ...] = ()  #: weights with learning rates and settings of their own
    schedule: ScheduleSetting = (Schedule(),)  #: after `warmup`: by name, a mapping with settings, or a sequence
    warmup: NonNegativeInt = 0  #: updates of linear warm-up
    accumulate: PositiveInt = 1  #: parts of each batch that are computed one after the other, to save memory
    epochs: PositiveInt | None = None  #: 10 if neither epochs nor updates are given
    evaluate_every: PositiveInt | None = None  #: updates between evaluations; by default one evaluation per epoch
    patience: PositiveInt | None = None  #: early stopping after this many evaluations without a better `select`
    stop: Stop | None = None  #: early stopping by another metric
    clip: ClipSetting | None = None  #: gradient clipping: the maximum norm, or a mapping
    label_smoothing: float = Field(0.0, ge=0, lt=1)  #: share of each target that is spread over all tokens
    average: AveragingSetting | None = None  #: averages of weights, by kind or a mapping
    phases: tuple[Phase, ...] = ()  #: phases of training in sequence; by default a single one
    compile: bool = False  #: compile the loss with torch.compile; where that fails, a warning says so

    @property
    def schedules(self) -> Iterator[tuple[tuple[str | int, ...], tuple[Schedule, ...], int]]:
        """Yield every sequence of schedules, with its keys and its updates of warm-up."""
        yield ("schedule",), self.schedule, self.warmup
        for number, phase in enumerate(self.phases):
            if phase.own_schedule:
                yield ("phases", number, "schedule"), phase.schedule or self.schedule, phase.warmup or 0

    @property
    def optimizers(self) -> Iterator[tuple[tuple[str | int, ...], Optimizer]]:
        """Yield every optimizer, with its keys."""
        yield ("optimizer",), self.optimizer
        for number, group in enumerate(self.groups):
            if group.optimizer is not None:
                yield ("groups", number, "optimizer"), group.optimizer
        for number, phase in enumerate(self.phases):
            if phase.optimizer is not None:
                yield ("phases", number, "optimizer"), phase.optimizer

    @property
    def names_weights(self) -> bool:
        return bool(self.groups) or any(phase.reset for phase in self.phases)

    def classes(self) -> Iterator[tuple[str, str]]:
        named = [("optimizer", one.name) for _, one in self.optimizers]
        named += [("schedule", one.name) for _, several, _ in self.schedules for one in several]
        yield from ((f"{sort} {name}", name) for sort, name in named if ":" in name)

    @model_validator(mode="after")
    def _goes_together(self) -> TrainingConfig:
        plateau = any(one.name == "plateau" for _, several, _ in self.schedules for one in several)
        others = [one.name for _, one in self.optimizers if one.name.lower() not in ELEMENTWISE]
        alone = {
            "patience": self.patience is not None,
            "stop": self.stop is not None,
            "schedule: plateau": plateau,
            "reset": any(phase.reset for phase in self.phases),
            f"optimizer: {others[0] if others else ''}": bool(others),
            "batch_size: auto": self.batch_size == "auto",
            "batch_unit: tokens": self.batch_unit == "tokens",
            "accumulate": self.accumulate > 1,
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
        for _, several, warmup in self.schedules:
            if several[0].name == "inverse-sqrt" and not warmup:
                raise ValueError("schedule inverse-sqrt requires warmup, such as `warmup: 4000`")
        return self

    @model_validator(mode="after")
    def _has_lengths(self) -> TrainingConfig:
        for _, several, _ in self.schedules:
            if any(one.updates is None and one.epochs is None and one.share is None for one in several[:-1]):
                raise ValueError(
                    "each of several schedules but the last needs its length, `updates`, `epochs` or `share`"
                )
            if (shares := fsum(one.share or 0 for one in several)) > 1 + 1e-9:
                raise ValueError(
                    f"the shares of a sequence of schedules sum to {shares:g}; they are shares of one training, so "
                    "they sum to at most 1. Reduce them, or leave out that of the last schedule"
                )
        return self

    @model_validator(mode="after")
    def _evaluates(self) -> TrainingConfig:
        if self.mode == "evaluate" and (self.updates or self.epochs or self.phases):
            raise ValueError("`mode: evaluate` does not train; leave `updates`, `epochs` and `phases` out")
        return self
