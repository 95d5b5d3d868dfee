"""The schema of suite files, and the defaults."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    StrictBool,
    field_validator,
)

from bench_core.suites.axes import Names
from bench_core.suites.training import Strict

MOST_SEEDS = 100_000


NAMES_OF_TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  #: as torch calls them, and as we do
Precision: TypeAlias = Annotated[
    Literal["fp32", "tf32", "bf16", "fp16"],
    BeforeValidator(lambda value: NAMES_OF_TYPES.get(value, value) if isinstance(value, str) else value),
]


class Hardware(Strict):
    """The hardware of a cell."""

    device: Literal["auto", "cpu", "cuda"] = "auto"  #: `auto` is cuda if available
    precision: Precision = "fp32"  #: of the forward pass in training
    threads: PositiveInt = 2  #: of each stage, for any number of workers
    devices: PositiveInt = 1  #: GPUs, or processes on a CPU, that share each batch of a training
    per_gpu: PositiveInt = 1  #: stages that share a GPU, as far as their memory is known to fit; changes no result


class Limits(Strict):
    """Limits on generation and scoring."""

    max_tokens: PositiveInt = 1000  #: the maximum length of a hypothesis in target tokens, stop included
    examples: PositiveInt | None = None  #: how many examples are decoded: a random sample, the same for all cells
    scored: PositiveInt | None = None  #: how many examples are scored
    batch_size: PositiveInt = 128  #: rows decoded or scored per batch


class Skip(Strict):
    """Combinations to skip, by names on axes; with a metric, only that metric is skipped."""

    task: Names = ()  #: a name or several
    model: Names = ()  #: likewise; a grid means all its combinations
    decoder: Names = ()  #: a name or several
    split: Names = ()  #: a name or several
    hardware: Names = ()  #: a name or several
    metric: Names = ()  #: skips these metrics instead of the cells

    def covers(self, **names: str | None) -> bool:
        """Return whether every axis listed contains the given name."""
        return all(names.get(axis) in allowed for axis, allowed in self if allowed)


class Exemption(Strict):
    """A law that runs do not ask of a part of the suite."""

    part: str  #: its name in the suite: that of a task, model, decoder or metric
    law: str  #: as errors name it in brackets
    reason: str = Field(min_length=1)  #: printed in reports


class SuiteFile(Strict):
    """A suite file."""

    suite: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*$")  #: names its reports
    title: str = ""  #: the title of the report
    source: str = ""  #: the paper or other origin of the question
    note: str = ""  #: a note for readers of the report
    labels: dict[str, str] = {}  #: words for names of parts, splits and axes in all tables and figures
    quote: StrictBool | Names = ()  #: tasks whose texts reports show although their corpus forbids it; false: none
    tasks: dict[str, dict[str, Any]] = Field(
        min_length=1
    )  #: installed parts with their settings, by names of your choice
    models: dict[str, dict[str, Any]] = {}  #: likewise; also `training:`, `grid:` and `by_task:`
    decoders: dict[str, dict[str, Any]] = {}  #: likewise; without any, the suite only scores
    metrics: dict[str, dict[str, Any]] = {}  #: likewise
    probes: dict[str, dict[str, Any]] = {}  #: likewise; probes that models require are added
    training: dict[str, Any] = {}  #: the training of all models
    seeds: PositiveInt | list[NonNegativeInt] = 1  #: the number of seeds, starting at 0, or a list of seeds
    splits: list[str] = Field(["test"], min_length=1)  #: the splits to decode and score
    limits: Limits = Limits()  #: limits on generation and scoring
    hardware: Hardware | dict[str, Hardware] = Hardware()  #: one, or several by name, which adds an axis
    skip: list[Skip] = []  #: combinations to skip
    exempt: list[Exemption] = []  #: laws that runs do not ask of parts, each with a reason for readers
    samples: int = Field(3, ge=1, le=1000)  #: the number of outputs per cell that reports may show
    profiles: dict[str, dict[str, Any]] = {}  #: sets of changes to the suite, selected by `--profile`

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: int | list[int]) -> int | list[int]:
        if isinstance(seeds, list) and (not seeds or len(set(seeds)) < len(seeds)):
            raise ValueError("seeds must be a number of seeds, or a list of distinct ones")
        if isinstance(seeds, int) and seeds > MOST_SEEDS:
            raise ValueError(f"at most {MOST_SEEDS:,} seeds are possible")
        return seeds

    @field_validator("hardware", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        """Distinguish one configuration from several, so that errors name the right keys."""
        if not isinstance(value, Mapping):
            return value
        several = value and all(isinstance(item, Mapping) for item in value.values())
        return {name: Hardware.model_validate(one) for name, one in value.items()} if several else Hardware(**value)
