"""The schema of `figures:`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, NonNegativeInt, model_validator

from bench_core.suites.axes import AXES, TRAINING_AXES, Axes, Axis, Names
from bench_core.suites.training import Strict

Scale: TypeAlias = Literal["linear", "log"]


class Scales(Strict):
    """The scale of each axis of a figure."""

    x: Scale = "linear"  #: of the horizontal axis
    y: Scale = "linear"  #: of the vertical axis


COSTS: Mapping[str, tuple[str, ...]] = {
    "prepare": (),
    "train": ("parameters", "updates", "ms_per_update"),
    "decode": ("examples", "tokens", "tokens_per_second", "ms_per_example"),
    "score": ("examples", "tokens", "tokens_per_second", "ms_per_example"),
}  #: stages whose costs a scatter plot can show, with their specific costs
OF_ALL_STAGES = ("seconds", "cpu_seconds", "peak_mib")
NEEDED: Mapping[str, tuple[str, ...]] = {
    "histogram": ("values",),
    "box": ("values",),
    "line": ("x", "y"),
    "scatter": ("x", "y"),
    "heat": ("x", "y", "value"),
    "order": ("examples",),
}  #: the keys that each kind of figure requires
CALLED = {"heat": "heat map", "order": "figure of orders"}
USUAL_WIDTH, MOST_EXAMPLES = 5.5, 20
Examples: TypeAlias = Annotated[int, Field(ge=1, le=MOST_EXAMPLES)]


class Figure(Strict):
    """A figure of a report: groups of cells, and what is drawn of each."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)  #: names its files
    kind: Literal["histogram", "line", "box", "scatter", "heat", "order"]  #: the kind of plot
    caption: str = ""  #: the caption below it
    values: tuple[str, ...] = ()  #: metrics, per example (histogram, box)
    value: str = ""  #: a metric, averaged over seeds (heat)
    x: str = ""  #: `step` or `epoch` (line), a metric or a cost (scatter), an axis or a setting (heat)
    y: str = ""  #: a curve of the training history, such as `loss` or `valid perplexity` (line), otherwise as x
    by: Axes = ()  #: axes that define the groups
    where: dict[Axis, Names] = {}  #: selects cells by names on axes; all by default
    bins: int | None = Field(None, ge=1, le=1000)  #: maximum number of bins (histogram), 50 by default
    examples: Examples | tuple[NonNegativeInt, ...] = ()  #: the number of outputs, or their ids (order)
    scale: Scale | Scales = "linear"  #: of the values, or of each axis; of the colours (heat)
    width: float = Field(USUAL_WIDTH, ge=2, le=20)  #: in inches; the font size stays the same

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
            raise ValueError("the y axis of a box plot holds the groups; its values are on x")
        if self.kind == "order" and (self.scale != "linear" or self.width != USUAL_WIDTH):
            raise ValueError(f"a {name} has no axes and its size depends on the text; leave `scale` and `width` out")
        for name in self.costs:
            _check_cost(name)
        return self

    @model_validator(mode="after")
    def _of_two_sides(self) -> Figure:
        """Check the columns and rows of a heat map."""
        if self.kind != "heat":
            return self
        for axis, setting in self.sides:
            if axis not in AXES[:-1]:
                known = ", ".join(AXES[:-1])
                raise ValueError(f"x and y of a heat map are axes ({known}) or settings such as `model.hidden`")
            if setting == "" or (setting is not None and axis not in ("task", "model", "decoder")):
                raise ValueError("settings are those of a task, model or decoder, such as `decoder.width`")
        if self.x == self.y:
            raise ValueError("x and y of a heat map must differ")
        if self.by:
            raise ValueError("a heat map has no `by`; x and y define its groups")
        if isinstance(self.scale, Scales):
            raise ValueError("the scale of a heat map is `linear` or `log`, for its colours")
        return self

    @model_validator(mode="after")
    def _axes_that_vary(self) -> Figure:
        if "seed" in (*self.by, *self.where):
            raise ValueError("figures pool or average over seeds; they have no seed axis")
        if self.kind == "line" and not {*self.by, *self.where} <= {*TRAINING_AXES}:
            raise ValueError("training has no decoder or split; its axes are task, model and hardware")
        if len(set(self.by)) < len(self.by):
            raise ValueError("an axis can be in `by` only once")
        return self

    @property
    def costs(self) -> tuple[str, ...]:
        """Return those of x and y that are costs, such as `cost.train.seconds`."""
        return tuple(name for name in (self.x, self.y) if self.kind == "scatter" and name.startswith("cost."))

    @property
    def sides(self) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
        """Return the axes of x and y of a heat map, each with its setting, if any."""
        (across, _, setting), (along, _, other) = self.x.partition("."), self.y.partition(".")
        return (across, setting if "." in self.x else None), (along, other if "." in self.y else None)

    @property
    def grouped(self) -> tuple[Axis, ...]:
        """Return the axes that define the groups: `by`, or x and y of a heat map."""
        if self.kind != "heat":
            return self.by
        behind = {axis for axis, _ in self.sides}
        return tuple(axis for axis in AXES if axis in behind)

    @property
    def scales(self) -> Scales:
        """Return the scale of each axis; a single word is for the value axis, or for both axes of a scatter plot."""
        if isinstance(self.scale, Scales):
            return self.scale
        on_x, on_y = self.kind not in ("line", "heat"), self.kind in ("line", "scatter")
        return Scales(x=self.scale if on_x else "linear", y=self.scale if on_y else "linear")

    def covers(self, cell: Mapping[str, Any]) -> bool:
        """Return whether a cell passes `where`; a cell without a name on an axis passes."""
        return all(cell.get(axis) in (None, *names) for axis, names in self.where.items())


def _check_cost(name: str) -> None:
    """Raise ValueError unless the name is a cost, such as `cost.train.seconds`."""
    _, stage, what = [*name.split(".", 2), ""][:3]
    if stage not in COSTS:
        raise ValueError(f"{name!r} names no cost of a stage ({', '.join(COSTS)}), such as `cost.train.seconds`")
    known = (*OF_ALL_STAGES, *COSTS[stage])
    if what not in known:
        raise ValueError(f"{name!r}: known costs of {stage} stages are {', '.join(known)}")
