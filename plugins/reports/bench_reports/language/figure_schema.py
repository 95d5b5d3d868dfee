"""The schema of `figures:`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, FiniteFloat, NonNegativeInt, PositiveInt, model_validator

from bench_core.registry import suggestion
from bench_core.suites.axes import AXES, TRAINING_AXES, Axes, Axis, Names, as_list
from bench_core.suites.training import Strict
from bench_reports.language.setting_values import WITH_SETTINGS, AxisOrSetting, side_of

Scale: TypeAlias = Literal["linear", "log"]


class Scales(Strict):
    """The scale of each axis of a figure."""

    x: Scale = "linear"  #: scale of the horizontal axis
    y: Scale = "linear"  #: scale of the vertical axis


COSTS: Mapping[str, tuple[str, ...]] = {
    "prepare": (),
    "train": ("parameters", "updates", "ms_per_update"),
    "decode": ("examples", "tokens", "tokens_per_second", "ms_per_example"),
    "score": ("examples", "tokens", "tokens_per_second", "ms_per_example"),
}  #: stages whose costs a figure can show, with their specific costs
OF_ALL_STAGES = ("seconds", "cpu_seconds", "peak_mib")
#: Costs that claims can name
TRAINING_COSTS = tuple(f"cost.train.{what}" for what in (*OF_ALL_STAGES, *COSTS["train"]))
LENGTHS: Mapping[str, str] = {
    "reference.tokens": "tokens of the reference, EOS included",
    "reference.words": "words of the reference, EOS included",
    "source.words": "words of the source",
}  #: lengths of an example that can be the x of a line, with axis labels
KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "histogram": (("values",), ("bins", "panels", "labels")),
    "box": (("values",), ("labels",)),
    "line": (("x", "y"), ("points", "panels", "at", "bins", "spread", "labels")),
    "bar": (("x", "y"), ("panels", "at", "spread", "labels")),
    "scatter": (("x", "y"), ("points", "panels", "spread", "labels")),
    "survival": ((), ("panels", "spread", "labels")),
    "heat": (("x", "y", "value"), ("labels",)),
    "order": (("examples",), ()),
}  #: required and optional keys of each kind of figure, besides the common keys
KIND_NAMES = {"heat": "heat map", "order": "figure of orders", "survival": "survival curve"}
WIDTHS: Mapping[str, float] = {"column": 3.25, "page": 6.75}  #: inches: a column, and a page of two columns
DEFAULT_WIDTH, MAX_EXAMPLES, MAX_BINS = 5.5, 20, 1000
Examples: TypeAlias = Annotated[int, Field(ge=1, le=MAX_EXAMPLES)]
Bins: TypeAlias = Annotated[int, Field(ge=1, le=MAX_BINS)]
Sides: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(as_list, json_schema_input_type=str | list[str])]
Width: TypeAlias = Literal["column", "page"] | Annotated[float, Field(ge=2, le=20)]


class Figure(Strict):
    """A figure of a report: groups of cells, and what is drawn for each."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)  #: identifier, also the name of its files
    kind: Literal["histogram", "line", "bar", "box", "scatter", "survival", "heat", "order"]  #: the kind of plot
    caption: str = ""  #: the caption below it
    values: tuple[str, ...] = ()  #: metrics, per example (histogram, box)
    value: str = ""  #: a metric, averaged over seeds (heat)
    x: str = ""  #: see below; an axis or a setting (line, bar, heat), a metric or a cost (line, scatter), ...
    y: str = ""  #: a metric or a cost (line, bar, scatter), an entry of the training history (line), as `x` (heat)
    by: Sides = ()  #: axes, or settings such as `model.hidden`, that define the groups
    points: Axes = ()  #: axes whose names are the points of each group (line or scatter of two metrics)
    panels: str = ""  #: an axis or a setting: one panel for each of its names or values, with shared axes
    where: dict[Axis, Names] = {}  #: selects cells by their names on axes; all by default
    at: dict[str, FiniteFloat] = {}  #: values on x for names without that setting, such as `{greedy: 1}`
    bins: Bins | tuple[PositiveInt, ...] | None = None  #: number of bins; a line by length also takes upper ends
    examples: Examples | tuple[NonNegativeInt, ...] = ()  #: number of outputs, or their ids (order)
    scale: Scale | Scales = "linear"  #: scale of the values, or of each axis; of the colours (heat)
    spread: Literal["interval", "std", "none"] = "interval"  #: what bands and error bars show
    labels: dict[str, str] = {}  #: labels of `x` and `y`, and words for names of series, places and panels
    width: Width = DEFAULT_WIDTH  #: `column` (3.25), `page` (6.75), or inches; the font size stays the same

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        (needed, optional), name = KEYS[self.kind], KIND_NAMES.get(self.kind, self.kind)
        for key in ("values", "value", "x", "y", "bins", "examples", "points", "panels", "at", "spread", "labels"):
            given = self.spread != "interval" if key == "spread" else getattr(self, key)
            if key in needed and not given:
                raise ValueError(f"a {name} needs {' and '.join(f'`{required}`' for required in needed)}")
            if given and key not in (*needed, *optional):
                source = f"; it is drawn from {' and '.join(needed)}" if needed else ""
                raise ValueError(f"a {name} has no `{key}`{source}")
        if self.kind == "box" and self.scales.y != "linear":
            raise ValueError("the y axis of a box plot shows the groups; the values are on x")
        if self.kind == "order" and (self.scale != "linear" or self.width != DEFAULT_WIDTH):
            raise ValueError(f"a {name} has no axes and its size depends on the text; leave `scale` and `width` out")
        for cost in self.costs:
            _check_cost(cost)
        return self

    @model_validator(mode="after")
    def _of_its_x(self) -> Self:
        """Check the keys that depend on the x axis of a line or bars."""
        if self.kind == "bar" and not self.place:
            raise ValueError(f"the x of bars must be an axis or a setting, such as `decoder.width`, not {self.x!r}")
        if isinstance(self.bins, tuple) and (not self.bins or [*self.bins] != sorted({*self.bins})):
            raise ValueError("`bins` must be a number of bins, or the upper edges of bins, such as `[10, 20, 30]`")
        if self.kind == "line" and self.bins is not None and not self.by_length:
            raise ValueError(f"a line can have `bins` only if its x is one of {', '.join(LENGTHS)}")
        if self.kind == "histogram" and isinstance(self.bins, tuple):
            raise ValueError("`bins` of a histogram must be a number of bins")
        if self.at and not (self.place and self.place.setting):
            raise ValueError("`at` needs a setting as x: it gives a value to names that lack this setting")
        between = self.kind == "line" and not (self.history or self.by_length or self.place)
        if self.points and not between and self.kind != "scatter":
            raise ValueError("only figures of a metric or a cost against another can have `points`")
        if between and not self.points:
            known = [*AXES[:-1], *(f"{axis}.SETTING" for axis in WITH_SETTINGS), "training.SETTING"]
            raise ValueError(
                f"the x of a line must be `step` or `epoch`, an axis or a setting ({', '.join(known)}), a length "
                f"({', '.join(LENGTHS)}), or a metric or cost, which needs `points`; not {self.x!r}"
            )
        return self

    @model_validator(mode="after")
    def _of_two_sides(self) -> Self:
        """Check the columns and rows of a heat map."""
        if self.kind != "heat":
            return self
        for text in (self.x, self.y):
            _check_side(text, "x and y of a heat map are")
        if self.x == self.y:
            raise ValueError("x and y of a heat map must differ")
        if self.by:
            raise ValueError("a heat map has no `by`; x and y define its groups")
        if isinstance(self.scale, Scales):
            raise ValueError("the scale of a heat map, for its colours, must be `linear` or `log`")
        return self

    @model_validator(mode="after")
    def _axes_that_vary(self) -> Self:
        if "seed" in (*self.by, *self.where, *self.points, self.panels, self.x):
            raise ValueError("figures pool or average over seeds; they have no seed axis")
        for text in (*self.by, *filter(None, [self.panels])):
            _check_side(text, "`by` and `panels` are")
        sides = self.sides.values()
        if self.history and not {*(side.axis for side in sides), *self.where} <= {*TRAINING_AXES}:
            raise ValueError("a training curve has no decoder or split; its axes are task, model and hardware")
        several = [*self.by, *filter(None, [self.panels]), *self.points, *([self.x] if self.place else [])]
        if len(set(several)) < len(several):
            raise ValueError("an axis can be in `by` only once, and not in `panels`, `points` or x too")
        return self

    @property
    def history(self) -> bool:
        """Return whether it is a training curve."""
        return self.kind == "line" and self.x in ("step", "epoch")

    @property
    def by_length(self) -> bool:
        """Return whether it is a curve by the length of examples."""
        return self.kind == "line" and self.x in LENGTHS

    @property
    def place(self) -> AxisOrSetting | None:
        """Return the axis or setting that a line or bars have on x; None if x is neither."""
        return side_of(self.x) if self.kind in ("line", "bar") and self.x not in LENGTHS else None

    @property
    def costs(self) -> tuple[str, ...]:
        """Return the costs among x and y, such as `cost.train.seconds`."""
        shown = self.kind in ("line", "bar", "scatter") and not self.history
        return tuple(name for name in (self.x, self.y) if shown and name.startswith("cost."))

    @property
    def sides(self) -> dict[str, AxisOrSetting]:
        """Return the axes and settings that arrange its cells, by their text in the suite."""
        texts = [*self.by, self.panels, *self.points]
        texts += [self.x, self.y] if self.kind == "heat" else [self.x] if self.place else []
        return {text: side for text in texts if (side := side_of(text))}

    @property
    def grouping_axes(self) -> tuple[Axis, ...]:
        """Return the axes of its groups, places and points."""
        behind = {side.axis for side in self.sides.values()}
        return tuple(axis for axis in AXES if axis in behind)

    @property
    def scales(self) -> Scales:
        """Return the scale of each axis; a single word sets the value axis, or both axes of a scatter plot."""
        if isinstance(self.scale, Scales):
            return self.scale
        on_x, on_y = self.kind in ("histogram", "box", "scatter", "survival"), self.kind in ("line", "bar", "scatter")
        return Scales(x=self.scale if on_x else "linear", y=self.scale if on_y else "linear")

    @property
    def inches(self) -> float:
        """Return the width in inches."""
        return WIDTHS[self.width] if isinstance(self.width, str) else self.width

    def label_of(self, name: str) -> str:
        """Return the label of a name, or the name itself if it has no label."""
        return self.labels.get(name, name)

    def covers(self, cell: Mapping[str, Any]) -> bool:
        """Return whether a cell passes `where`; a cell without a name on an axis passes."""
        return all(cell.get(axis) in (None, *names) for axis, names in self.where.items())


def _check_side(text: str, subject: str) -> None:
    """Raise ValueError unless a text is an axis or a setting."""
    if side_of(text):
        return
    if "." in text:
        raise ValueError(
            f"{text!r}: a setting belongs to a task, model, decoder or training, such as `decoder.width`"
        )
    hint = suggestion(text, [*AXES[:-1]])
    raise ValueError(f"{subject} axes or settings such as `model.hidden`; {text!r} is neither. {hint}")


def _check_cost(name: str) -> None:
    """Raise ValueError unless the name is a cost, such as `cost.train.seconds`."""
    _, stage, what = [*name.split(".", 2), ""][:3]
    if stage not in COSTS:
        raise ValueError(f"{name!r} is not a cost of a stage ({', '.join(COSTS)}), such as `cost.train.seconds`")
    known = (*OF_ALL_STAGES, *COSTS[stage])
    if what not in known:
        raise ValueError(f"{name!r}: known costs of {stage} stages are {', '.join(known)}")
