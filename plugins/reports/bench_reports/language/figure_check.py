"""Check `figures:`: whether names and settings exist, and whether each place belongs to a single cell."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from bench_core.registry import suggestion
from bench_core.suites.axes import AXES, SECTIONS, TRAINING_AXES, Axis
from bench_core.suites.grids import word
from bench_core.suites.names import Names, join_names
from bench_core.suites.training import training_schema
from bench_reports.language.figure_schema import Figure
from bench_reports.language.of_suite import language
from bench_reports.language.setting_values import MISSING, AxisOrSetting, setting_value
from placed_settings import Unreadable


def check_figures(names: Names) -> None:
    """Report every problem with a figure."""
    checks = (_check_metrics, _check_places, _check_history, _check_where, _check_axes, _check_decoders)
    names.each("figures", language(names.suite).figures, checks)
    tables = [getattr(table, "id", None) for table in language(names.suite).tables]
    drawn = [getattr(figure, "id", None) for figure in language(names.suite).figures]
    for number, figure_id in enumerate(drawn):
        if figure_id is not None and figure_id in (*drawn[:number], *tables):
            text = f"a table or another figure also has the id {figure_id!r}. Rename one."
            names.problems.add(("figures", number, "id"), text)


def _check_metrics(names: Names, keys: list[str | int], figure: Figure) -> None:
    """Report unknown metrics."""
    names.check_known([*keys, "values"], "metric", getattr(figure, "values", ()))
    if figure.kind == "heat":
        names.check_known([*keys, "value"], "metric", [figure.value])
    if figure.kind in ("line", "bar", "scatter") and not figure.history:
        arranged = figure.place or figure.by_length
        for side in "y" if arranged else "xy":
            with suppress(Unreadable):
                name = getattr(figure, side)
                names.check_known([*keys, side], "metric", [] if name.startswith("cost.") else [name])


def _check_where(names: Names, keys: list[str | int], figure: Figure) -> None:
    for axis, chosen in figure.where.items():
        with suppress(Unreadable):
            names.check_known([*keys, "where", axis], axis, chosen)
    if figure.at and figure.place:
        names.check_known([*keys, "at"], figure.place.axis, figure.at)


def _check_axes(names: Names, keys: list[str | int], figure: Figure) -> None:
    """Report axes whose names the figure does not distinguish."""
    for axis in TRAINING_AXES if figure.history else AXES[:-1]:
        with suppress(Unreadable):
            several = names.ambiguous(axis, _names_in_figure(names, figure, axis))
            if len(several) > 1 and axis not in figure.grouping_axes:
                text = f"figure {getattr(figure, 'id', '')!r} does not say which {axis}: {join_names(several)}. "
                way = "Make it x or y" if figure.kind == "heat" else f"Put `{axis}` in its `by`"
                names.problems.add(keys, f"{text}{way}, or select one by `where`.")


def _check_decoders(names: Names, keys: list[str | int], figure: Figure) -> None:
    if figure.kind == "survival" and not names.names("decoder"):
        names.problems.add([*keys, "kind"], "a survival curve needs decoded outputs, but this suite has no decoders.")


def _check_places(names: Names, keys: list[str | int], figure: Figure) -> None:
    """Report missing settings, and different names that share a place in a figure."""
    for axis in figure.grouping_axes:
        sides = {text: side for text, side in figure.sides.items() if side.axis == axis}
        if any(side.setting for side in sides.values()):
            for task in [None] if axis == "task" else _names_in_figure(names, figure, "task"):
                if not _check_setting(names, keys, figure, axis, sides, task):
                    break


def _check_setting(
    names: Names,
    keys: list[str | int],
    figure: Figure,
    axis: Axis,
    sides: Mapping[str, AxisOrSetting],
    task: str | None,
) -> bool:
    """Report the first name on an axis without a place of its own, for a task; return True if there is none."""
    section = names.source.data.get(SECTIONS[axis]) or {}
    training = {**training_schema()().model_dump(), **(names.source.data.get("training") or {})}
    seen: dict[tuple[str, ...], str] = {}
    for name in _names_in_figure(names, figure, axis):
        values = [
            figure.at[name] if figure.place == side and name in figure.at
            else setting_value(section, name, side.setting, task, training) if side.setting else name
            for side in sides.values()
        ]  # fmt: skip
        if MISSING in values:
            text = [*sides][values.index(MISSING)]
            key = next(key for key in ("x", "y", "panels", "by") if text in getattr(figure, key))
            way = f"Set one, such as `at: {{{name}: VALUE}}`" if figure.place and key == "x" else "Set one"
            problem = f"{axis} {name!r} has no value for {sides[text].setting!r}. {way}, or select others by `where`."
            names.problems.add([*keys, key], problem)
            return False
        if (place := tuple(map(word, values))) in seen:
            text = f"{seen[place]!r} and {name!r} have the same place in figure {figure.id!r}"
            names.problems.add(keys, f"{text}: {'/'.join(place)}. Select one by `where`.")
            return False
        seen[place] = name
    return True


def _names_in_figure(names: Names, figure: Figure, axis: Axis) -> Sequence[str]:
    """Return the names on an axis that pass `where`."""
    return [name for name in names.names(axis) if name in figure.where.get(axis, [name])]


def _check_history(names: Names, keys: list[str | int], figure: Figure) -> None:
    """Report curves that no history contains; terms of a loss may have any one-word name."""
    if not figure.history:
        return
    name = figure.y
    selects = [variant.training.select for entry in names.suite.models.values() for variant in entry.all]
    metrics = {name: config.name for name, config in names.suite.metrics.items()}
    judged = [f"{select.split} {metrics.get(select.metric, 'loss')}" for select in selects]
    known = list(dict.fromkeys([*judged, "loss", "lr"]))
    if name not in known and (" " in name or name in (*metrics, "step", "epoch", "best")):
        keys = [*keys, "y"]
        names.problems.add(keys, f"no training history of this suite contains {name!r}. {suggestion(name, known)}")
