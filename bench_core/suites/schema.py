"""The schema of suite files, with defaults."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, StrictBool, field_validator

from bench_core.suites.axes import Names
from bench_core.suites.training import Strict

MAX_SEEDS = 100_000
NAMES_OF_TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  #: torch's names -> ours
Precision: TypeAlias = Annotated[
    Literal["fp32", "tf32", "bf16", "fp16"],
    BeforeValidator(lambda value: NAMES_OF_TYPES.get(value, value) if isinstance(value, str) else value),
]


class Hardware(Strict):
    """The hardware of a cell."""

    device: Literal["auto", "cpu", "cuda"] = "auto"  #: `auto`: cuda if available
    precision: Precision = "fp32"  #: the precision of the forward pass in training
    threads: PositiveInt = 2  #: CPU threads per stage, regardless of the number of workers
    devices: PositiveInt = 1  #: GPUs (or CPU processes) among which each training batch is divided
    per_gpu: PositiveInt = 1  #: stages that may share a GPU if their memory is known to fit; does not affect results


class Limits(Strict):
    """Limits on generation and scoring."""

    max_tokens: PositiveInt = 1000  #: the maximum length of a hypothesis, in target tokens including EOS
    examples: PositiveInt | None = None  #: the number of examples to decode: a random sample, the same for all cells
    scored: PositiveInt | None = None  #: the number of examples to score
    batch_size: PositiveInt = 128  #: rows per batch in decoding and scoring


class Skip(Strict):
    """Combinations of names on axes to skip; with metrics, only these metrics are skipped."""

    task: Names = ()  #: one or more names
    model: Names = ()  #: one or more names; a grid stands for all its combinations
    decoder: Names = ()  #: one or more names
    split: Names = ()  #: one or more names
    hardware: Names = ()  #: one or more names
    metric: Names = ()  #: skip these metrics instead of whole cells

    def covers(self, **names: str | None) -> bool:
        """Return whether the given names match every axis that is set."""
        return all(names.get(axis) in allowed for axis, allowed in self if allowed)


class Exemption(Strict):
    """A law from which a part of the suite is exempt."""

    part: str  #: the name of a task, model, decoder or metric of the suite
    law: str  #: the name that errors give in brackets
    reason: str = Field(min_length=1)  #: printed in reports


class SuiteFile(Strict):
    """A suite file."""

    suite: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*$")  #: the name of suite and reports
    title: str = ""  #: the title of reports
    source: str = ""  #: the paper, or another source, on which the suite is based
    note: str = ""  #: a note for readers of reports
    labels: dict[str, str] = {}  #: display names of parts, splits and axes in tables and figures
    quote: StrictBool | Names = ()  #: tasks to quote even if their corpus forbids it; true: all, false: none
    tasks: dict[str, dict[str, Any]] = Field(min_length=1)  #: parts with their settings, under names of your choice
    models: dict[str, dict[str, Any]] = {}  #: parts with settings; also `training:`, `grid:` and `by_task:`
    decoders: dict[str, dict[str, Any]] = {}  #: parts with settings; without decoders, the suite only scores
    metrics: dict[str, dict[str, Any]] = {}  #: parts with settings
    probes: dict[str, dict[str, Any]] = {}  #: parts with settings; probes that models require are added
    training: dict[str, Any] = {}  #: training settings for all models
    seeds: PositiveInt | list[NonNegativeInt] = 1  #: the number of seeds, starting at 0, or a list of seeds
    splits: list[str] = Field(["test"], min_length=1)  #: the splits to decode and score
    limits: Limits = Limits.model_construct()  #: limits on generation and scoring
    hardware: Hardware | dict[str, Hardware] = Hardware.model_construct()  #: one configuration, or an axis of several
    skip: list[Skip] = []  #: combinations to skip
    exempt: list[Exemption] = []  #: exemptions of parts from laws, each with a reason
    samples: int = Field(3, ge=1, le=1000)  #: the number of sample outputs per cell that reports may show
    profiles: dict[str, dict[str, Any]] = {}  #: named sets of changes to the suite, for `--profile`

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: int | list[int]) -> int | list[int]:
        if isinstance(seeds, list) and (not seeds or len(set(seeds)) < len(seeds)):
            raise ValueError("seeds must be a number of seeds, or a list of distinct seeds")
        if isinstance(seeds, int) and seeds > MAX_SEEDS:
            raise ValueError(f"at most {MAX_SEEDS:,} seeds are possible")
        return seeds

    @field_validator("hardware", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        """Distinguish one configuration from several by name, so that errors name the right keys."""
        if not isinstance(value, Mapping):
            return value
        if not value or not all(isinstance(item, Mapping) for item in value.values()):
            return Hardware(**value)
        return {name: Hardware.model_validate(entry) for name, entry in value.items()}
