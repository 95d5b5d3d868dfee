"""The schema of `choose:`, `tables:` and `claims:`, and of all sections that define a report."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, StrictBool, ValidationInfo, field_validator, model_validator

from bench_core.suites.axes import Axes, Axis, Names, as_list
from bench_core.suites.training import Strict
from bench_reports.language.figure_schema import Figure, Width

Digits: TypeAlias = Annotated[int, Field(ge=0, le=10)]  #: decimal digits

_Chosen: TypeAlias = dict[Literal["chosen"], str]
Shown: TypeAlias = Annotated[
    tuple[str, ...], BeforeValidator(as_list, json_schema_input_type=str | list[str] | _Chosen)
]


class Reference(Strict):
    """A published table to show with ours, and the mapping of its row and column names."""

    table: str  #: the id of a published table
    rows: dict[str, str | None] = {}  #: published row names mapped to ours; equal names need no entry, null omits it
    columns: dict[str, str | None] = {}  #: published column names mapped to ours, like `rows`
    differs: str = ""  #: why our numbers are not comparable with the published ones, in any profile
    same_examples: str = Field(
        "", pattern="^(sha256:[0-9a-f]{64})?$"
    )  #: digest of the test set, if both use the same examples


class Choice(Strict):
    """Model selection by the mean over seeds of a metric on a held-out split.

    It chooses among the combinations of a grid, or among decoders for each model or combination.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)  #: its name in tables
    model: Names = ()  #: models with grids
    decoders: dict[str, Names] = {}  #: instead of `model`: new names, each with the decoders to choose from
    by: str  #: a metric of the suite
    split: str = "valid"  #: the split on which the metric is compared
    decoder: str | None = None  #: for a metric of generated text: the decoder used for the comparison

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if bool(self.model) == bool(self.decoders):
            raise ValueError(
                "a choice is either among the combinations of grids, such as `model: lstm`, or among decoders, such "
                "as `decoders: {beam: [beam-2, beam-4]}`"
            )
        if self.decoders and self.decoder is not None:
            raise ValueError("a choice among decoders compares the decoders themselves; leave `decoder` out")
        return self

    @property
    def axis(self) -> Literal["model", "decoder"]:
        """Return the axis on which the choice is made."""
        return "decoder" if self.decoders else "model"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its results."""
        return (*self.decoders,) if self.decoders else self.model


class Table(Strict):
    """A table of a report: axes that label its rows and columns, and the metrics that fill it.

    A table `of: choices` has settings of grids (and names of chosen decoders) as rows, and the chosen values as
    entries; a table `of: tasks` has tasks as rows, and statistics of their data as entries.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)  #: identifier, also the name of its files
    caption: str = ""  #: the caption above it
    of: Literal["results", "choices", "tasks"] = "results"  #: what it shows, see above
    rows: Axes = ()  #: axes whose names label its rows
    columns: Axes = ()  #: axes whose names label its columns
    values: tuple[str, ...] = Field((), validate_default=True)  #: metrics, one column each
    where: dict[Axis, Shown] = {}  #: selects cells by their names on axes; all by default
    chosen: Names = ()  #: the choice whose results are shown, or a choice of models and a choice of decoders
    test: Literal["bootstrap", "permutation"] = "bootstrap"  #: paired test against the column's best, or a baseline
    baseline: str = ""  #: name of the row with which all others are compared, instead of with the best
    differences: bool = False  #: shows the difference of each other row from the baseline
    pairs: bool = False  #: adds a table of differences between all pairs of rows, tested as one family
    average: bool = False  #: adds the mean over the columns of each metric, tested over all their test sets
    ranks: bool = False  #: adds the mean rank of each row over the columns of each metric; 1 is best
    digits: Digits | dict[str, Digits] | None = None  #: decimals, or by metric; default: two digits of the error
    spread: Literal["std", "interval", "none"] = "std"  #: shown with means: deviation over seeds, or 95 % interval
    transpose: bool = False  #: swaps rows and columns in print, so that metrics are rows
    labels: dict[str, str] = {}  #: words for names in this table, in addition to the suite's `labels`
    width: Width = "page"  #: width in print: `column` (3.25), `page` (6.75), or inches
    note: str = ""  #: a note below it, for readers
    reference: Reference | None = None  #: a published table to show with ours

    @model_validator(mode="before")
    @classmethod
    def _of_its_kind(cls, value: Any) -> Any:
        """Set the fixed axis of a table of choices or tasks, and read `where: {model: {chosen: ...}}`."""
        usual = {"choices": {"columns": ["model"]}, "tasks": {"rows": ["task"]}}
        if not isinstance(value, Mapping):
            return value
        where, kind, chosen = value.get("where"), value.get("of"), as_list(value.get("chosen"))
        for axis, only in chosen_alone(where).items():
            value = {**value, "where": {**value["where"], axis: []}}  # filled in by the suite
            chosen = [*chosen, only] if isinstance(chosen, list) else [only]
        value = {**value, "chosen": [] if chosen is None else chosen}
        return {**usual[kind], **value} if isinstance(kind, str) and kind in usual else value

    @field_validator("chosen")
    @classmethod
    def _each_once(cls, chosen: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chosen))

    @field_validator("where", mode="before")
    @classmethod
    def _check_where(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and any(isinstance(names, Mapping) for names in value.values()):
            raise ValueError(
                "`where` must list names, such as `{split: test}`; models and decoders may also be `{chosen: CHOICE}`"
            )
        return value

    @field_validator("values")
    @classmethod
    def _check_values(cls, values: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        kind = info.data.get("of")
        if kind is None:  # it is invalid
            return values
        if kind == "choices" and values:
            raise ValueError("a table of choices has the chosen settings as its values; leave `values` out")
        if kind != "choices" and not values:
            what = "statistics of tasks, such as `[train/sentences, vocabulary]`" if kind == "tasks" else "metrics"
            raise ValueError(f"a table needs `values`: {what}")
        return values

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        rows, columns = self.rows, {*self.columns}
        if self.of == "choices" and (rows or not columns <= {"task", "model", "hardware"} or "model" not in columns):
            raise ValueError(
                "a table of choices has no `rows`, and its columns are `model`, optionally with `task` and `hardware`"
            )
        if self.of == "tasks" and (rows != ("task",) or columns or not {*self.where} <= {"task"} or self.chosen):
            raise ValueError("a table of tasks has rows `[task]`, no columns, and only `task` in `where`")
        if self.of != "results" and self.test != "bootstrap":
            raise ValueError(f"a table of {self.of} has no per-example scores to test; leave `test` out")
        for name in ("differences", "pairs", "average", "ranks"):
            if getattr(self, name) and self.of != "results":
                raise ValueError(f"a table of {self.of} has no results; leave `{name}` out")
        if self.differences and not self.baseline:
            raise ValueError("`differences` need a `baseline`, the name of a row")
        return self

    @model_validator(mode="after")
    def _no_axis_twice(self) -> Self:
        if "seed" in (*self.rows, *self.columns, *self.where):
            raise ValueError("tables average over seeds; they have no seed axis")
        if len({*self.rows, *self.columns}) < len([*self.rows, *self.columns]):
            raise ValueError("an axis can occur only once in rows and columns")
        return self


class Claim(Strict):
    """A claim in words, and the expression that holds if the results support it."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)  #: its name, such as M1
    text: str  #: the claim in words
    expression: str = Field(alias="assert")  #: the condition, see [claims](#claims)
    requires: dict[
        str, str
    ] = {}  #: premises in words, each with its condition; the claim is tested only if all are shown
    primary: StrictBool = False  #: whether it is a main claim of the suite, corrected for the number of main claims
    note: str = ""  #: the source of its thresholds


class ReportSections(Strict):
    """The sections of a suite that define its report."""

    choose: list[Choice] = []  #: model selection among the combinations of grids, or among decoders
    tables: list[Table] = []  #: tables of the report; by default, one table of all numbers
    claims: list[Claim] = []  #: claims to test against the results
    figures: list[Figure] = []  #: figures of the report


def chosen_alone(where: Any) -> dict[Any, Any]:
    """Return the choices in `where`, such as `{model: {chosen: best}}`, by axis."""
    entries = where.items() if isinstance(where, Mapping) else ()
    return {
        axis: only["chosen"]
        for axis, only in entries
        if axis in ("model", "decoder") and isinstance(only, Mapping) and [*only] == ["chosen"]
    }
