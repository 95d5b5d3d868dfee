"""The settings of `training:`, which, unlike the rest of a suite, are part of cache keys."""

from collections.abc import Iterator, Mapping
from math import fsum
from typing import Annotated, Any, Literal, Self, TypeAlias

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

#: Optimizers that update each weight independently, so that stacked copies train as they would separately.
ELEMENTWISE = {
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd",
}  # fmt: skip


class OpenSettings(BaseModel):
    """A mapping in a suite with fixed keys and additional keys."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False, defer_build=True)

    @property
    def more(self) -> Mapping[str, Any]:
        """The additional keys."""
        return self.model_extra or {}


def _name_mapping(value: Any) -> Any:
    """Convert a plain string to `{name: STRING}`."""
    return {"name": value} if isinstance(value, str) else value


def _schedules(value: Any) -> Any:
    """Convert a single schedule to a sequence."""
    return [_name_mapping(each) for each in (value if isinstance(value, list | tuple) else [value])]


class Stop(Select):
    """Early stopping by a metric, which may differ from the metric of `select`."""

    patience: PositiveInt = 1  #: number of evaluations without progress after which training stops
    change: NonNegativeFloat = 0.0  #: minimum improvement of the metric that counts as progress


class Optimizer(OpenSettings):
    """An optimizer; additional keys are arguments of its class."""

    name: str = "adam"  #: a class of `torch.optim` (case-insensitive) or `package.module:Class`


OptimizerSetting: TypeAlias = Annotated[
    Optimizer, BeforeValidator(_name_mapping, json_schema_input_type=str | Optimizer)
]


class ParameterGroup(OpenSettings):
    """A weight group with its own settings; additional keys are arguments of the optimizer."""

    match: Names = Field(min_length=1)  #: weight name patterns, such as `embed.*`; the first matching group applies
    lr: NonNegativeFloat | None = None  #: peak learning rate, by default `lr` of `training`; 0 freezes the weights
    optimizer: OptimizerSetting | None = None  #: separate optimizer, such as `adamw` if `muon` is unsuitable


class Schedule(OpenSettings):
    """A learning rate schedule; additional keys are its arguments."""

    name: str = "constant"  #: constant, plateau, inverse-sqrt, linear, cosine, or a torch class such as `StepLR`
    updates: PositiveInt | None = None  #: length in updates; the last schedule needs no length
    epochs: PositiveInt | None = None  #: length in epochs
    share: float | None = Field(None, gt=0, le=1)  #: share of all updates; in the first schedule, includes warm-up
    every: Literal["update", "epoch"] = "update"  #: how often a torch schedule steps


class Clip(Strict):
    """Gradient clipping; set exactly one key."""

    norm: PositiveFloat | None = None  #: maximum global norm of the gradient
    each: PositiveFloat | None = None  #: maximum norm of the gradient of each weight tensor
    value: PositiveFloat | None = None  #: maximum absolute value of every entry

    @model_validator(mode="after")
    def _has_one_limit(self) -> Self:
        if sum(value is not None for _, value in self) != 1:
            raise ValueError("`clip` needs exactly one of `norm`, `each` and `value`, such as `clip: {value: 0.5}`")
        return self


class Averaging(Strict):
    """Weight averaging: the average is evaluated, selected and stored in place of the last weights."""

    kind: Literal["exponential", "uniform", "checkpoints"] = "exponential"  #: average over updates or evaluations
    decay: float = Field(0.999, gt=0, lt=1)  #: exponential: weight of the previous average at every update
    start: NonNegativeInt = 0  #: exponential, uniform: updates before averaging starts
    last: PositiveInt = 5  #: checkpoints: number of most recent evaluations to average


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


class Phase(OpenSettings):
    """A training phase; additional keys are model settings that may differ between phases."""

    updates: PositiveInt | None = None  #: length in updates; by default, unless `epochs` is set, as in `training`
    epochs: PositiveInt | None = None  #: length in epochs; if both are set, the shorter length applies
    lr: PositiveFloat | None = None  #: peak learning rate; by default `lr` of `training`
    warmup: NonNegativeInt | None = None  #: updates of linear warm-up from the start of the phase
    schedule: ScheduleSetting | None = None  #: starts with the phase; by default, `schedule` of `training` continues
    optimizer: OptimizerSetting | None = None  #: a new optimizer for this phase
    reset: tuple[str, ...] = ()  #: modules to reinitialize: weights and optimizer state

    @property
    def own_schedule(self) -> bool:
        """Whether the schedule counts updates from the start of the phase."""
        return self.schedule is not None or self.warmup is not None


class TrainingConfig(TrainingBase):
    """The settings for training a model."""

    model_config = ConfigDict(extra="forbid")

    optimizer: OptimizerSetting = Optimizer.model_construct()  #: a name, or a mapping with settings
    lr: PositiveFloat = 1e-3  #: peak learning rate; see `schedule` and `warmup`
    groups: tuple[ParameterGroup, ...] = ()  #: weight groups with their own learning rates and settings
    schedule: ScheduleSetting = (Schedule(),)  #: after `warmup`: a name, a mapping with settings, or a sequence
    warmup: NonNegativeInt = 0  #: updates of linear warm-up
    accumulate: PositiveInt = 1  #: parts of each batch, computed sequentially to save memory (gradient accumulation)
    epochs: PositiveInt | None = None  #: length in epochs; 10 if neither `epochs` nor `updates` is set
    evaluate_every: PositiveInt | None = None  #: updates between evaluations; by default one evaluation per epoch
    patience: PositiveInt | None = None  #: early stopping: number of evaluations without improvement in `select`
    stop: Stop | None = None  #: early stopping by a separate metric
    clip: ClipSetting | None = None  #: gradient clipping: a maximum global norm, or a mapping
    label_smoothing: float = Field(0.0, ge=0, lt=1)  #: probability mass of each target to spread over all tokens
    average: AveragingSetting | None = None  #: weight averaging: a kind, or a mapping
    phases: tuple[Phase, ...] = ()  #: training phases in sequence; by default a single phase
    compile: bool = False  #: compile the loss with torch.compile; if that fails, train uncompiled with a warning

    @property
    def schedules(self) -> Iterator[tuple[tuple[str | int, ...], tuple[Schedule, ...], int]]:
        """Yield every sequence of schedules with its keys and its number of warm-up updates."""
        yield ("schedule",), self.schedule, self.warmup
        for number, phase in enumerate(self.phases):
            if phase.own_schedule:
                yield ("phases", number, "schedule"), phase.schedule or self.schedule, phase.warmup or 0

    @property
    def optimizers(self) -> Iterator[tuple[tuple[str | int, ...], Optimizer]]:
        """Yield every optimizer with its keys."""
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
        names = [("optimizer", optimizer.name) for _, optimizer in self.optimizers]
        names += [("schedule", schedule.name) for _, several, _ in self.schedules for schedule in several]
        yield from ((f"{kind} {name}", name) for kind, name in names if ":" in name)

    @model_validator(mode="after")
    def _can_be_vmapped(self) -> Self:
        plateau = any(schedule.name == "plateau" for _, several, _ in self.schedules for schedule in several)
        others = [optimizer.name for _, optimizer in self.optimizers if optimizer.name.lower() not in ELEMENTWISE]
        unsupported = {
            "patience": self.patience is not None,
            "stop": self.stop is not None,
            "schedule: plateau": plateau,
            "reset": any(phase.reset for phase in self.phases),
            f"optimizer: {others[0] if others else ''}": bool(others),
            "batch_size: auto": self.batch_size == "auto",
            "batch_unit: tokens": self.batch_unit == "tokens",
            "accumulate": self.accumulate > 1,
        }
        if self.vmap_seeds and any(unsupported.values()):
            name = next(name for name, is_set in unsupported.items() if is_set)
            raise ValueError(
                f"vmapped seeds share every update and learning rate, so they do not support `{name}`. "
                "Remove it, or set `vmap_seeds: false`"
            )
        return self

    @model_validator(mode="after")
    def _has_warmup(self) -> Self:
        for _, several, warmup in self.schedules:
            if several[0].name == "inverse-sqrt" and not warmup:
                raise ValueError("schedule inverse-sqrt needs `warmup`, such as `warmup: 4000`")
        return self

    @model_validator(mode="after")
    def _has_lengths(self) -> Self:
        for _, several, _ in self.schedules:
            if any(each.updates is None and each.epochs is None and each.share is None for each in several[:-1]):
                raise ValueError("every schedule except the last needs a length: `updates`, `epochs` or `share`")
            if (shares := fsum(each.share or 0 for each in several)) > 1 + 1e-9:
                raise ValueError(
                    f"the shares of a schedule sequence sum to {shares:g}, but may sum to at most 1. "
                    "Reduce them, or remove the last `share`"
                )
        return self

    @model_validator(mode="after")
    def _evaluates(self) -> Self:
        if self.mode == "evaluate" and (self.updates or self.epochs or self.phases):
            raise ValueError("`mode: evaluate` does not train; remove `updates`, `epochs` and `phases`")
        return self
