"""Whether the names that a suite uses inside itself stand for something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_core.registry import suggestion
from bench_core.schema import AXES, Axis, Reference, Select, Table

if TYPE_CHECKING:
    from bench_core.located import Located
    from bench_core.mistakes import Mistakes
    from bench_core.suite import Suite


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
                self._known(("skip", number, axis), axis, names)
        for number, table in enumerate(self.suite.tables):
            self._check_table(number, table)
        for name, entry in self.suite.models.items():
            self._check_select(name, entry.training.select)
        ids = [table.id for table in self.suite.tables]
        for number, one in enumerate(ids):
            if one in ids[:number]:
                self.mistakes.add(("tables", number, "id"), f"two tables have the id {one!r}.")

    def names(self, axis: str) -> list[str]:
        """Return the suite's own names on an axis, or of its metrics."""
        data = self.source.data
        section = {"task": "tasks", "model": "models", "decoder": "decoders", "metric": "metrics"}.get(axis)
        if section:
            return [*(data.get(section) or ())]
        return list(self.suite.splits) if axis == "split" else list(self.suite.hardware)

    def _known(self, keys: Sequence[str | int], axis: str, names: Iterable[str]) -> None:
        known = [*self.names(axis), *sorted(self.whole.get(f"{axis}s", ()))]
        for name in names:
            if name not in known:
                self.mistakes.add(keys, f"no {axis} of this suite is called {name!r}. {suggestion(name, known)}")

    def _check_select(self, name: str, select: Select) -> None:
        own = "training" in self.source.data["models"].get(name, {})
        keys = [*(("models", name) if own else ()), "training", "select"]
        if select.metric != "loss":
            self._known([*keys, "metric"], "metric", [select.metric])
        if select.decoder is not None:
            self._known([*keys, "decoder"], "decoder", [select.decoder])

    def _check_table(self, number: int, table: Table) -> None:
        keys: list[str | int] = ["tables", number]
        self._known([*keys, "values"], "metric", table.values)
        for axis, names in table.where.items():
            self._known([*keys, "where", axis], axis, names)
        for axis in AXES[:-1]:
            several = [name for name in self.names(axis) if name in table.where.get(axis, [name])]
            if len(several) > 1 and axis not in (*table.rows, *table.columns):
                text = f"table {table.id!r} does not say which {axis}: {', '.join(several)}. "
                self.mistakes.add(keys, f"{text}Put `{axis}` in its rows or columns, or choose one by `where`.")
        if table.reference:
            self._check_reference(table, table.reference, [*keys, "reference"])

    def _check_reference(self, table: Table, reference: Reference, keys: list[str | int]) -> None:
        if reference.table not in self.suite.published:
            hint = suggestion(reference.table, list(self.suite.published), "Known, from references/ beside the suite")
            self.mistakes.add([*keys, "table"], f"no published table has the id {reference.table!r}. {hint}")
            return
        published = self.suite.published[reference.table]
        self._check_mapping([*keys, "rows"], reference.rows, list(published.rows), self._labels(table, table.rows))
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

    def _labels(self, table: Table, axes: Sequence[Axis], values: Sequence[str] = ()) -> list[str]:
        """Return every label that the axes can make, the profile's left-out names included."""
        labels = [""]
        for axis in axes:
            names = [*self.names(axis), *sorted(self.whole.get(f"{axis}s", set()) - set(self.names(axis)))]
            names = [name for name in names if name in table.where.get(axis, [name])]
            labels = [join(label, name) for label in labels for name in names]
        if values and (len(values) > 1 or not axes):
            labels = [join(label, value) for label in labels for value in values]
        return labels


def join(*names: str) -> str:
    """Return the label that names make together, such as `lstm/perplexity`."""
    return "/".join(name for name in names if name)
