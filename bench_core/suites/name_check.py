"""Whether the names that a suite uses inside itself stand for something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_core.registry import suggestion
from bench_core.suites.cells import join
from bench_core.suites.choice_check import Choosing
from bench_core.suites.grids import ModelGrid, gathered, grids_of
from bench_core.suites.heatmap_axes import SECTIONS, label
from bench_core.suites.schema import AXES, TRAINING_AXES, Axis, Figure, Reference, Select, Table

MOST_NAMES = 8  # in one message
AXES_OF: Mapping[str, tuple[Axis, ...]] = {
    "results": AXES[:-1],
    "choices": ("task", "model", "hardware"),
    "tasks": ("task",),
}  # of tables, by what they are of

if TYPE_CHECKING:
    from bench_core.suites.problems import Mistakes
    from bench_core.suites.suite import Suite
    from bench_core.suites.yaml_source import Located


@dataclass
class References:
    """Whether the names that tables, skips and trainings use are those of the suite."""

    suite: Suite
    source: Located
    mistakes: Mistakes
    whole: Mapping[str, set[str]]  # what the suite names without its profile

    def check(self) -> None:
        """Note every name that stands for nothing."""
        for number, skip in enumerate(self.suite.skip):
            for axis, names in skip:
                self.known(("skip", number, axis), axis, names)
        choosing = Choosing(self)
        for number, choice in enumerate(self.suite.choose):
            choosing.check(number, choice)
        for number, table in enumerate(self.suite.tables):
            self._check_table(number, table, choosing)
        for number, figure in enumerate(self.suite.figures):
            self._check_figure(number, figure)
        for name, entry in self.suite.models.items():
            for anywhere in entry.all:
                self._check_select(name, anywhere.training.select)
        ids = [table.id for table in self.suite.tables]
        for number, one in enumerate(ids):
            if one in ids[:number]:
                self.mistakes.add(("tables", number, "id"), f"two tables have the id {one!r}.")
        if self.suite.claims:
            self._check_claims()
        drawn = [figure.id for figure in self.suite.figures]
        for number, one in enumerate(drawn):
            if one in (*drawn[:number], *ids):
                text = f"a table or another figure has the id {one!r} too. Rename one."
                self.mistakes.add(("figures", number, "id"), text)

    def names(self, axis: str) -> list[str]:
        """Return the suite's own names on an axis, or of its metrics."""
        data = self.source.data
        section = SECTIONS.get(axis)
        if section:
            return [*(data.get(section) or ())]
        return list(self.suite.splits) if axis == "split" else list(self.suite.hardware)

    def known(self, keys: Sequence[str | int], axis: str, names: Iterable[str], more: Iterable[str] = ()) -> None:
        """Note names that are neither those of an axis nor among `more`."""
        known = dict.fromkeys([*self.names(axis), *sorted(self.whole.get(f"{axis}s", ())), *more])
        for name in names:
            if name not in known:
                hint = suggestion(name, gathered(known, self.suite.grids) if "/" not in name else [*known])
                ids = [one.id for one in self.suite.choose if axis == "decoder" and name in one.decoders]
                hint = f"Tables with `chosen: {ids[0]}` show what is chosen under this name." if ids else hint
                self.mistakes.add(keys, f"no {axis} of this suite is called {name!r}. {hint}")

    def _check_select(self, name: str, select: Select) -> None:
        own = "training" in self.source.data["models"].get(name, {})
        keys = [*(("models", name) if own else ()), "training", "select"]
        if select.metric != "loss":
            self.known([*keys, "metric"], "metric", [select.metric])
        if select.decoder is not None:
            self.known([*keys, "decoder"], "decoder", [select.decoder])

    def _check_table(self, number: int, table: Table, choosing: Choosing) -> None:
        keys: list[str | int] = ["tables", number]
        if table.of == "results":
            self.known([*keys, "values"], "metric", table.values)
        if table.of != "tasks" and not self.whole["models"] and not self.names("model"):
            text = f"table {table.id!r} shows results of models, and the suite has none. One `of: tasks` needs none."
            self.mistakes.add(keys, text)
        choosing.check_table(table, number)
        for axis, names in table.where.items():
            self.known([*keys, "where", axis], axis, names, self._groups(table, axis))
        for axis in AXES_OF[table.of]:
            several = [name for name in self.shown_in(table, axis) if name in table.where.get(axis, [name])]
            if len(several) > 1 and axis not in (*table.rows, *table.columns):
                text = f"table {table.id!r} does not say which {axis}: {_listed(several)}. "
                self.mistakes.add(keys, f"{text}Put `{axis}` in its rows or columns, or choose one by `where`.")
        if table.reference:
            self._check_reference(table, table.reference, [*keys, "reference"])

    def _check_claims(self) -> None:
        from bench_core.suites.claim_check import Asked  # only suites with claims pay for it

        Asked(self).check()

    def _check_figure(self, number: int, figure: Figure) -> None:
        keys: list[str | int] = ["figures", number]
        self.known([*keys, "values"], "metric", figure.values)
        if figure.kind == "scatter":
            for side in ("x", "y"):
                self.known([*keys, side], "metric", {getattr(figure, side)}.difference(figure.costs))
        if figure.kind == "heat":
            self.known([*keys, "value"], "metric", [figure.value])
            self._check_matrix(keys, figure)
        if figure.kind == "line":
            self._check_entry([*keys, "y"], figure.y)
        for axis, names in figure.where.items():
            self.known([*keys, "where", axis], axis, names)
        for axis in TRAINING_AXES if figure.kind == "line" else AXES[:-1]:
            several = [name for name in self.names(axis) if name in figure.where.get(axis, [name])]
            if len(several) > 1 and axis not in figure.grouped:
                text = f"figure {figure.id!r} does not say which {axis}: {_listed(several)}. "
                way = "Make it x or y" if figure.kind == "heat" else f"Put `{axis}` in its `by`"
                self.mistakes.add(keys, f"{text}{way}, or choose one by `where`.")

    def _check_matrix(self, keys: list[str | int], figure: Figure) -> None:
        """Note settings that are not given, and names that fall on one place of a heat map."""
        for axis in figure.grouped:
            section = self.source.data.get(SECTIONS.get(axis, "")) or {}
            own = [(side, setting) for side, (of, setting) in zip("xy", figure.sides, strict=True) if of == axis]
            seen: dict[tuple[str | None, ...], str] = {}
            for name in self.names(axis):
                if name not in figure.where.get(axis, [name]):
                    continue
                place = tuple(label(name, setting, section) for _, setting in own)
                if None in place:
                    side, setting = own[place.index(None)]
                    text = f"{axis} {name!r} does not give a single {setting!r}. Write it down, or choose by `where`."
                    self.mistakes.add([*keys, side], text)
                    break
                if place in seen:
                    text = f"{seen[place]!r} and {name!r} have one place in figure {figure.id!r}"
                    self.mistakes.add(keys, f"{text}: {'/'.join(map(str, place))}. Choose one by `where`.")
                    break
                seen[place] = name

    def _check_entry(self, keys: list[str | int], name: str) -> None:
        """Note what no history tells; parts of a loss are known to models alone, and may have any one-word name."""
        selects = [one.training.select for entry in self.suite.models.values() for one in entry.all]
        metrics = {name: config.name for name, config in self.suite.metrics.items()}
        judged = [f"{select.split} {metrics.get(select.metric, 'loss')}" for select in selects]
        known = list(dict.fromkeys([*judged, "loss", "lr"]))
        if name not in known and (" " in name or name in (*metrics, "step", "epoch", "best")):
            self.mistakes.add(keys, f"no training of this suite tells its {name!r}. {suggestion(name, known)}")

    def _check_reference(self, table: Table, reference: Reference, keys: list[str | int]) -> None:
        if reference.table not in self.suite.published:
            hint = suggestion(reference.table, list(self.suite.published), "Known, from references/ beside the suite")
            self.mistakes.add([*keys, "table"], f"no published table has the id {reference.table!r}. {hint}")
            return
        published = self.suite.published[reference.table]
        rows = self._settings(table) if table.of == "choices" else self._labels(table, table.rows)
        self._check_mapping([*keys, "rows"], reference.rows, list(published.rows), rows)
        columns = self._labels(table, table.columns, table.values)
        self._check_mapping([*keys, "columns"], reference.columns, list(published.columns), columns)

    def _check_mapping(
        self, keys: list[str | int], mapping: Mapping[str, str | None], theirs: list[str], ours: list[str]
    ) -> None:
        for name in mapping:
            if name not in theirs:
                text = f"the published table has no such name: {name!r}. {suggestion(name, theirs)}"
                self.mistakes.add([*keys, name], text)
        for name in theirs:
            target = mapping.get(name, name)
            if target is not None and target not in ours:
                text = f"published {name!r} must be mapped to a label of this table, or to null. "
                self.mistakes.add([*keys, name], f"{text}{suggestion(target, ours, 'Labels')}")

    def shown_in(self, table: Table, axis: str) -> list[str]:
        """Return the names on an axis that a table can show; what is chosen goes by the name of its grid."""
        grids = self._groups(table, axis)
        names, alone = gathered(self.names(axis), grids), table.of == "choices" and not self._groups(table, "decoder")
        return [name for name in names if name in grids] if alone and grids else names

    def _groups(self, table: Table, axis: str) -> Mapping[str, ModelGrid]:
        """Return what a table's choices on an axis are made among, by the names that stand for what is chosen."""
        ours = [choice for choice in self.suite.choose if choice.id in table.chosen and choice.axis == axis]
        return grids_of(ours[0], self.suite.grids) if ours else {}

    def _settings(self, table: Table) -> list[str]:
        """Return the settings that grids vary, with the profile or without it, and names for chosen decoders."""
        ours = dict.fromkeys(setting for grid in self.suite.grids.values() for setting in grid.settings)
        return [*ours, *sorted(self.whole["settings"] - set(ours)), *self._groups(table, "decoder")]

    def _labels(self, table: Table, axes: Sequence[Axis], values: Sequence[str] = ()) -> list[str]:
        """Return every label that the axes can make, the profile's left-out names included."""
        labels = [""]
        for axis in axes:
            names = [*self.shown_in(table, axis), *self._groups(table, axis)]
            names = list(dict.fromkeys([*names, *sorted(self.whole.get(f"{axis}s", set()))]))
            names = [name for name in names if name in table.where.get(axis, [name])]
            labels = [join(label, name) for label in labels for name in names]
        if values and (len(values) > 1 or not axes):
            labels = [join(label, value) for label in labels for value in values]
        return labels


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
