"""The schema of suites/**/*.yaml: what can stand where, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bench_core.suites.training import Phase as Phase
from bench_core.suites.training import Select as Select
from bench_core.suites.training import Strict as Strict
from bench_core.suites.training import TrainingConfig as TrainingConfig

Axis: TypeAlias = Literal["task", "model", "decoder", "split", "hardware", "seed"]
AXES: tuple[Axis, ...] = get_args(Axis)
TRAINING_AXES: tuple[Axis, ...] = ("task", "model", "hardware")  #: what tells trainings apart, besides seeds


MOST_SEEDS = 100_000


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]
Axes: TypeAlias = Annotated[tuple[Axis, ...], BeforeValidator(_as_list, json_schema_input_type=Axis | list[Axis])]
_Chosen: TypeAlias = dict[Literal["chosen"], str]
Shown: TypeAlias = Annotated[
    tuple[str, ...], BeforeValidator(_as_list, json_schema_input_type=str | list[str] | _Chosen)
]


class Hardware(Strict):
    """What a cell computes on."""

    device: Literal["auto", "cpu", "cuda"] = "auto"  #: `auto` is cuda where there is one
    precision: Literal["fp32", "bf16"] = "fp32"  #: of the forward pass in training
    threads: PositiveInt = 2  #: of a stage, whatever the number of workers


class Limits(Strict):
    """How much is generated and scored."""

    max_tokens: PositiveInt = 1000  #: the most target tokens of a hypothesis, stop included
    examples: PositiveInt | None = None  #: how many of a split are decoded, a random choice that all cells share
    scored: PositiveInt | None = None  #: how many are scored
    batch_size: PositiveInt = 128  #: rows decoded or scored at a time


class Reference(Strict):
    """A published table beside ours: its row and column names to ours; null leaves one out."""

    table: str  #: the id of a published table
    rows: dict[str, str | None] = {}  #: their names to ours; the same name needs no entry, null leaves one out
    columns: dict[str, str | None] = {}  #: likewise
    differs: str = ""  #: why ours cannot be compared with the published, whatever the profile
    tolerance: NonNegativeFloat = 0.05  #: of the published value, within which ours is called reproduced


class Choice(Strict):
    """A choice, by the mean over seeds of a metric on a split kept for that.

    It is made among the combinations of a grid, or among decoders for each model (for each combination of a grid).
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)  #: which tables call it by
    model: Names = ()  #: those that have the grids
    decoders: dict[str, Names] = {}  #: instead of `model`: new names, each for one of several decoders
    by: str  #: a metric of the suite
    split: str = "valid"  #: on which the metric is compared
    decoder: str | None = None  #: for a metric over generated text, by which combinations are compared

    @model_validator(mode="after")
    def _of_one_kind(self) -> Choice:
        if bool(self.model) == bool(self.decoders):
            raise ValueError(
                "a choice is either among the grids of models, such as `model: lstm`, or among decoders, such as "
                "`decoders: {beam: [beam-2, beam-4]}`"
            )
        if self.decoders and self.decoder is not None:
            raise ValueError("a choice among decoders compares all of these; leave `decoder` out")
        return self

    @property
    def axis(self) -> Literal["model", "decoder"]:
        """Return the axis whose names it is made among."""
        return "decoder" if self.decoders else "model"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that stand for what is chosen."""
        return (*self.decoders,) if self.decoders else self.model


class Table(Strict):
    """A table of a report: axes that label its rows and columns, and the metrics that fill it.

    One `of: choices` has settings of grids, and names of choices among decoders, as its rows and what was chosen as
    its values; one `of: tasks` has the tasks as its rows and statistics of their data as its values.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)  #: names its files
    caption: str = ""  #: what stands above it
    of: Literal["results", "choices", "tasks"] = "results"  #: what it shows, see above
    rows: Axes = ()  #: axes whose names label its rows
    columns: Axes = ()  #: axes whose names label its columns
    values: tuple[str, ...] = Field((), validate_default=True)  #: metrics; several make several columns
    where: dict[Axis, Shown] = {}  #: which cells, by names on axes; all by default
    chosen: Names = ()  #: a choice, or one of each kind: what they were made among is shown as what was chosen
    test: Literal["bootstrap", "permutation"] = "bootstrap"  #: of the best of a column against the others, by pairs
    reference: Reference | None = None  #: a published table, to stand beside ours

    @model_validator(mode="before")
    @classmethod
    def _of_its_kind(cls, value: Any) -> Any:
        """Fill in the axis that a table of choices or of tasks has anyway; tell `where: {model: {chosen: ...}}`."""
        usual = {"choices": {"columns": ["model"]}, "tasks": {"rows": ["task"]}}
        if not isinstance(value, Mapping):
            return value
        where, kind, chosen = value.get("where"), value.get("of"), _as_list(value.get("chosen"))
        for axis, only in chosen_alone(where).items():
            value = {**value, "where": {**value["where"], axis: []}}  # which a suite fills in
            chosen = [*chosen, only] if isinstance(chosen, list) else [only]
        value = {**value, "chosen": [] if chosen is None else chosen}
        return {**usual[kind], **value} if isinstance(kind, str) and kind in usual else value

    @field_validator("chosen")
    @classmethod
    def _each_once(cls, chosen: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chosen))

    @field_validator("where", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and any(isinstance(names, Mapping) for names in value.values()):
            raise ValueError(
                "`where` gives names, such as `{split: test}`; models may be `{chosen: CHOICE}`, and so may decoders"
            )
        return value

    @field_validator("values")
    @classmethod
    def _filled(cls, values: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        kind = info.data.get("of")
        if kind == "choices" and values:
            raise ValueError("a table of choices has the chosen settings as its values; leave `values` out")
        if kind != "choices" and not values:
            what = "statistics of tasks, such as `[train/sentences, vocabulary]`" if kind == "tasks" else "metrics"
            raise ValueError(f"a table needs `values`: {what}")
        return values

    @model_validator(mode="after")
    def _has_axes_of_its_kind(self) -> Table:
        rows, columns = self.rows, {*self.columns}
        if self.of == "choices" and (rows or not columns <= {"task", "model", "hardware"} or "model" not in columns):
            raise ValueError(
                "a table of choices has the settings as its rows, and in its columns `model`, if need be with `task` "
                "and `hardware`"
            )
        if self.of == "tasks" and (rows != ("task",) or columns or not {*self.where} <= {"task"} or self.chosen):
            raise ValueError("a table of tasks has the rows `[task]`, no columns, and nothing `where` but tasks")
        if self.of != "results" and self.test != "bootstrap":
            raise ValueError(f"a table of {self.of} has no numbers of examples to test; leave `test` out")
        return self

    @model_validator(mode="after")
    def _no_axis_twice(self) -> Table:
        if "seed" in (*self.rows, *self.columns, *self.where):
            raise ValueError("seeds are averaged over; a table has no seed axis")
        if len({*self.rows, *self.columns}) < len([*self.rows, *self.columns]):
            raise ValueError("an axis can stand in rows or in columns, once")
        return self


Scale: TypeAlias = Literal["linear", "log"]


class Scales(Strict):
    """How the axes of a figure are divided."""

    x: Scale = "linear"  #: of the axis across
    y: Scale = "linear"  #: of the axis upwards


COSTS: Mapping[str, tuple[str, ...]] = {
    "prepare": (),
    "train": ("parameters", "updates", "ms_per_update"),
    "decode": ("examples", "tokens", "tokens_per_second", "ms_per_example"),
    "score": ("examples", "tokens", "tokens_per_second", "ms_per_example"),
}  #: stages whose costs a scatter can show, and what each tells beside what all do
OF_ALL_STAGES = ("seconds", "cpu_seconds", "peak_mib")
NEEDED: Mapping[str, tuple[str, ...]] = {
    "histogram": ("values",),
    "box": ("values",),
    "line": ("x", "y"),
    "scatter": ("x", "y"),
    "heat": ("x", "y", "value"),
    "order": ("examples",),
}  #: what each kind of figure is drawn from
CALLED = {"heat": "heat map", "order": "figure of orders"}
USUAL_WIDTH, MOST_EXAMPLES = 5.5, 20
Examples: TypeAlias = Annotated[int, Field(ge=1, le=MOST_EXAMPLES)]


class Figure(Strict):
    """A figure of a report: groups of cells, and what is drawn of each; what else it needs depends on its kind."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)  #: names its files
    kind: Literal["histogram", "line", "box", "scatter", "heat", "order"]  #: what is drawn of each group
    caption: str = ""  #: what stands below it
    values: tuple[str, ...] = ()  #: metrics, drawn by example (histogram, box)
    value: str = ""  #: a metric, its mean over seeds (heat)
    x: str = ""  #: `step` or `epoch` (line), a metric or a cost (scatter), an axis or a setting (heat)
    y: str = ""  #: what histories tell, such as `loss` or `valid perplexity` (line), otherwise as x
    by: Axes = ()  #: axes that make the groups
    where: dict[Axis, Names] = {}  #: which cells, by names on axes; all by default
    bins: int | None = Field(None, ge=1, le=1000)  #: the most bins of a histogram, 50 by default
    examples: Examples | tuple[NonNegativeInt, ...] = ()  #: how many of the first outputs, or their ids (order)
    scale: Scale | Scales = "linear"  #: of the values, or of each axis; of the colours (heat)
    width: float = Field(USUAL_WIDTH, ge=2, le=20)  #: inches; letters keep their size

    @model_validator(mode="after")
    def _of_its_kind(self) -> Figure:
        needed, name = NEEDED[self.kind], CALLED.get(self.kind, self.kind)
        for key in ("values", "value", "x", "y", "bins", "examples"):
            if key in needed and not getattr(self, key):
                raise ValueError(f"a {name} needs {' and '.join(f'`{one}`' for one in needed)}")
            if getattr(self, key) and key not in (*needed, *(["bins"] if self.kind == "histogram" else [])):
                raise ValueError(f"a {name} has no `{key}`, it is drawn from {' and '.join(needed)}")
        if self.kind == "line" and self.x not in ("step", "epoch"):
            raise ValueError(f"the x of a line is `step` or `epoch`, not {self.x!r}")
        if self.kind == "box" and self.scales.y != "linear":
            raise ValueError("the y axis of a box figure holds the groups; its values lie on x")
        if self.kind == "order" and (self.scale != "linear" or self.width != USUAL_WIDTH):
            raise ValueError(
                f"a {name} is as large as its words need, and has no axes; leave `scale` and `width` out"
            )
        for name in self.costs:
            _check_cost(name)
        return self

    @model_validator(mode="after")
    def _of_two_sides(self) -> Figure:
        """Check what makes the columns and rows of a heat map."""
        if self.kind != "heat":
            return self
        for axis, setting in self.sides:
            if axis not in AXES[:-1]:
                known = ", ".join(AXES[:-1])
                raise ValueError(f"x and y of a heat map are axes ({known}) or settings such as `model.hidden`")
            if setting == "" or (setting is not None and axis not in ("task", "model", "decoder")):
                raise ValueError("settings are those of a task, model or decoder, such as `decoder.width`")
        if self.x == self.y:
            raise ValueError("x and y of a heat map are two different things")
        if self.by:
            raise ValueError("a heat map has no `by`; its groups are made by x and y")
        if isinstance(self.scale, Scales):
            raise ValueError("the scale of a heat map is one word, `linear` or `log`, for its colours")
        return self

    @model_validator(mode="after")
    def _axes_that_vary(self) -> Figure:
        if "seed" in (*self.by, *self.where):
            raise ValueError("seeds are pooled or averaged over; a figure has no seed axis")
        if self.kind == "line" and not {*self.by, *self.where} <= {*TRAINING_AXES}:
            raise ValueError("a training has neither decoder nor split; its axes are task, model and hardware")
        if len(set(self.by)) < len(self.by):
            raise ValueError("an axis can stand in `by` once")
        return self

    @property
    def costs(self) -> tuple[str, ...]:
        """Return what x and y tell of costs, such as `cost.train.seconds`: it depends on clocks."""
        return tuple(name for name in (self.x, self.y) if self.kind == "scatter" and name.startswith("cost."))

    @property
    def sides(self) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
        """Return the axis behind x and behind y of a heat map, each with the setting on it, if it is one."""
        (across, _, setting), (along, _, other) = self.x.partition("."), self.y.partition(".")
        return (across, setting if "." in self.x else None), (along, other if "." in self.y else None)

    @property
    def grouped(self) -> tuple[Axis, ...]:
        """Return the axes that make the groups: those of `by`, or those behind y and x of a heat map."""
        if self.kind != "heat":
            return self.by
        behind = {axis for axis, _ in self.sides}
        return tuple(axis for axis in AXES if axis in behind)

    @property
    def scales(self) -> Scales:
        """Return how each axis is divided; one word is for the axis of the values, or for both of a scatter."""
        if isinstance(self.scale, Scales):
            return self.scale
        on_x, on_y = self.kind not in ("line", "heat"), self.kind in ("line", "scatter")
        return Scales(x=self.scale if on_x else "linear", y=self.scale if on_y else "linear")

    def covers(self, cell: Mapping[str, Any]) -> bool:
        """Return whether `where` lets a cell in; one without a name on an axis is not chosen against."""
        return all(cell.get(axis) in (None, *names) for axis, names in self.where.items())


class Skip(Strict):
    """Combinations left out on purpose, by names of their axes; one with a metric leaves out that metric alone."""

    task: Names = ()  #: a name or several
    model: Names = ()  #: likewise; one with a grid means all of its combinations
    decoder: Names = ()  #: a name or several
    split: Names = ()  #: a name or several
    hardware: Names = ()  #: a name or several
    metric: Names = ()  #: leaves out these metrics instead of the cells

    def covers(self, **names: str | None) -> bool:
        """Return whether every axis given here holds the name in question."""
        return all(names.get(axis) in allowed for axis, allowed in self if allowed)


class Claim(Strict):
    """A statement that the results must bear out, and the expression that says when they do."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)  #: such as M1
    text: str  #: what is claimed, for people
    expression: str = Field(alias="assert")  #: in the language of expressions.py


class SuiteFile(Strict):
    """A suite as it is written."""

    suite: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*$")  #: names its reports
    title: str = ""  #: heading of the report
    source: str = ""  #: where the question comes from
    note: str = ""  #: what readers of the report should know
    tasks: dict[str, dict[str, Any]] = Field(min_length=1)  #: installed parts and their settings, by your names
    models: dict[str, dict[str, Any]] = {}  #: likewise; also `training:`, `grid:` and `by_task:`
    decoders: dict[str, dict[str, Any]] = {}  #: likewise; without any, the suite only scores
    metrics: dict[str, dict[str, Any]] = {}  #: likewise
    probes: dict[str, dict[str, Any]] = {}  #: likewise; those that its models carry are added
    training: TrainingConfig = TrainingConfig()  #: of all models
    seeds: PositiveInt | list[NonNegativeInt] = 1  #: a number of seeds, 0 and on, or a list of them
    splits: list[str] = Field(["test"], min_length=1)  #: those that are decoded and scored
    limits: Limits = Limits()  #: how much is generated and scored
    hardware: Hardware | dict[str, Hardware] = Hardware()  #: one, or several by name, which make an axis
    skip: list[Skip] = []  #: combinations left out on purpose
    choose: list[Choice] = []  #: choices among the combinations of grids, or among decoders
    tables: list[Table] = []  #: of the report
    claims: list[Claim] = []  #: what the results must bear out
    figures: list[Figure] = []  #: of the report
    profiles: dict[str, dict[str, Any]] = {}  #: changes to all of this, chosen by `--profile`

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: int | list[int]) -> int | list[int]:
        if isinstance(seeds, list) and (not seeds or len(set(seeds)) < len(seeds)):
            raise ValueError("seeds must be a number of seeds or a list of different ones")
        if isinstance(seeds, int) and seeds > MOST_SEEDS:
            raise ValueError(f"at most {MOST_SEEDS:,} seeds can be had")
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


def chosen_alone(where: Any) -> dict[Any, Any]:
    """Return the choices that let in only what they chose, such as `{model: {chosen: best}}`, by their axes."""
    found = where.items() if isinstance(where, Mapping) else ()
    return {
        axis: only["chosen"]
        for axis, only in found
        if axis in ("model", "decoder") and isinstance(only, Mapping) and [*only] == ["chosen"]
    }


def _check_cost(name: str) -> None:
    """Raise ValueError unless a name is that of a cost, such as `cost.train.seconds`."""
    _, stage, what = [*name.split(".", 2), ""][:3]
    if stage not in COSTS:
        raise ValueError(
            f"{name!r} does not say what of which stage ({', '.join(COSTS)}), as `cost.train.seconds` does"
        )
    known = (*OF_ALL_STAGES, *COSTS[stage])
    if what not in known:
        raise ValueError(f"{name!r}: of {stage} stages are told {', '.join(known)}")
