"""The schema of suites/**/*.yaml: what can stand where, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

Axis: TypeAlias = Literal["task", "model", "decoder", "split", "hardware", "seed"]
AXES: tuple[Axis, ...] = get_args(Axis)


class Strict(BaseModel):
    """A mapping of a suite: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Hardware(Strict):
    """What a cell computes on."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    threads: PositiveInt = 2


class Limits(Strict):
    """How much is generated and scored."""

    max_tokens: PositiveInt = 1000  #: the most target tokens of a hypothesis, stop included
    examples: PositiveInt | None = None  #: how many of a split are decoded, a random choice that all cells share
    scored: PositiveInt | None = None  #: how many are scored
    batch_size: PositiveInt = 128  #: rows decoded or scored at a time


class Select(Strict):
    """Which weights are kept: those best by a metric of the suite, or by the training loss on a split."""

    metric: str = "loss"
    split: str = "valid"
    decoder: str | None = None  #: for a metric over generated text
    examples: PositiveInt | None = None  #: how many are decoded or scored for it


class Phase(BaseModel):
    """A stretch of training; other keys are settings of the model that may change by phase."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    updates: PositiveInt | None = None
    epochs: PositiveInt | None = None
    lr: PositiveFloat | None = None
    reset: tuple[str, ...] = ()  #: modules that start anew, weights and optimizer state


class TrainingConfig(Strict):
    """How a model is trained."""

    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    lr: PositiveFloat = 1e-3
    betas: tuple[NonNegativeFloat, NonNegativeFloat] = (0.9, 0.999)
    momentum: NonNegativeFloat = 0.0
    weight_decay: NonNegativeFloat = 0.0
    schedule: Literal["constant", "plateau", "inverse-sqrt", "linear", "cosine"] = "constant"
    factor: float = Field(0.5, gt=0, lt=1)  #: of the rate after an evaluation without progress (plateau)
    warmup: NonNegativeInt = 0  #: updates of linear growth
    batch_size: PositiveInt = 32
    batch_unit: Literal["rows", "tokens"] = "rows"
    epochs: PositiveInt | None = None
    updates: PositiveInt | None = None  #: training ends at the first of both that is reached
    evaluate_every: PositiveInt | None = None  #: updates between evaluations; one an epoch by default
    patience: PositiveInt | None = None  #: evaluations without progress before training stops
    clip: PositiveFloat | None = None  #: of the global gradient norm
    select: Select = Select()
    phases: tuple[Phase, ...] = ()
    initial: str | None = None  #: a safetensors file of weights to begin with

    @model_validator(mode="after")
    def _fits(self) -> TrainingConfig:
        if self.schedule == "inverse-sqrt" and not self.warmup:
            raise ValueError("schedule inverse-sqrt needs warmup, such as `warmup: 4000`")
        return self


class Reference(Strict):
    """A published table beside ours: its row and column names to ours; null leaves one out."""

    table: str
    rows: dict[str, str | None] = {}
    columns: dict[str, str | None] = {}


class Table(Strict):
    """A table of a report: axes that label its rows and columns, and the metrics that fill it."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    caption: str = ""
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...] = ()
    values: tuple[str, ...] = Field(min_length=1)
    where: dict[Axis, tuple[str, ...]] = {}
    reference: Reference | None = None

    @field_validator("where", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return {axis: _as_list(names) for axis, names in value.items()} if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _no_axis_twice(self) -> Table:
        if "seed" in (*self.rows, *self.columns, *self.where):
            raise ValueError("seeds are averaged over; a table has no seed axis")
        if len({*self.rows, *self.columns}) < len([*self.rows, *self.columns]):
            raise ValueError("an axis can stand in rows or in columns, once")
        return self


class Skip(Strict):
    """Combinations left out on purpose, by names of their axes; one with a metric leaves out that metric alone."""

    task: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    decoder: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return _as_list(value)

    def covers(self, **names: str | None) -> bool:
        """Return whether every axis given here holds the name in question."""
        return all(names.get(axis) in allowed for axis, allowed in self if allowed)


class SuiteFile(Strict):
    """A suite as it is written."""

    suite: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*$")
    title: str = ""
    source: str = ""
    tasks: dict[str, dict[str, Any]] = Field(min_length=1)
    models: dict[str, dict[str, Any]] = Field(min_length=1)
    decoders: dict[str, dict[str, Any]] = {}
    metrics: dict[str, dict[str, Any]] = {}
    training: TrainingConfig = TrainingConfig()
    seeds: PositiveInt | list[NonNegativeInt] = 1
    splits: list[str] = Field(["test"], min_length=1)
    limits: Limits = Limits()
    hardware: Hardware | dict[str, Hardware] = Hardware()
    skip: list[Skip] = []
    tables: list[Table] = []
    profiles: dict[str, dict[str, Any]] = {}

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: int | list[int]) -> int | list[int]:
        if isinstance(seeds, list) and (not seeds or len(set(seeds)) < len(seeds)):
            raise ValueError("seeds must be a number of seeds or a list of different ones")
        return seeds

    @field_validator("hardware", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        """Tell a mapping of several from one, so that errors name the right keys."""
        several = isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values())
        return (
            {name: Hardware.model_validate(item) for name, item in value.items()}
            if several
            else (Hardware.model_validate(value) if isinstance(value, Mapping) else value)
        )


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value
