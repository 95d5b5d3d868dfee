"""The names that a suite defines; checks references to them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench_core.registry import sections, suggestion
from bench_core.suites.axes import SECTIONS
from bench_core.suites.cells import can_pair
from bench_core.suites.grids import gathered
from bench_core.suites.suite import Suite
from placed_settings import Located, Problems, Unreadable

MAX_NAMES = 8  # per message

#: Checks an entry of a list section, such as a table. Arguments: the names, the key path of the entry, the entry.
Check = Callable[["Names", list[str | int], Any], None]


@dataclass
class Names:
    """The names of a suite, with methods that report wrong references to them."""

    suite: Suite
    source: Located
    problems: Problems
    whole: Mapping[str, set[str]]  # plural of an axis -> its names before profile and `--set`

    def names(self, axis: str) -> list[str]:
        """Return the names on an axis of the suite, or the names of its metrics."""
        if section := SECTIONS.get(axis):
            entries = self.source.data.get(section) or {}
            if not isinstance(entries, Mapping):
                raise Unreadable(section)
            return [*entries]
        return list(self.suite.splits) if axis == "split" else list(self.suite.hardware)

    def each(self, section: str, entries: Sequence[Any], checks: Iterable[Check]) -> None:
        """Run checks on every entry of a section; checks that read an invalid setting are skipped."""
        for check in checks:
            for number, entry in enumerate(entries):
                with suppress(Unreadable):
                    check(self, [section, number], entry)

    def check_known(
        self, keys: Sequence[str | int], axis: str, names: Iterable[str], more: Iterable[str] = ()
    ) -> None:
        """Report names that are neither on the axis nor in `more`."""
        known = dict.fromkeys([*self.names(axis), *sorted(self.whole.get(f"{axis}s", ())), *more])
        for name in names:
            if name not in known:
                hint = suggestion(name, gathered(known, self.suite.grids) if "/" not in name else [*known])
                others = filter(None, (section.hint(self.suite, axis, name) for section in sections()))
                self.problems.add(keys, f"no {axis} of this suite is called {name!r}. {next(others, hint)}")
            else:
                self.note_removed(keys, axis, name)

    def note_removed(self, keys: Sequence[str | int], axis: str, name: str) -> None:
        """Add a note if `--set` removed a name."""
        if (axis, name) in self.problems.removed and name not in self.names(axis):
            note = f"{axis} {name!r} is ignored: `--set {axis}s.{name}=null` removes it."
            self.problems.notes.append(f"{self.source.place(keys)}: {note}")

    def fits(self, model: str, decoder: str) -> bool:
        """Return whether a cell can combine a model and a decoder; True for unknown names."""
        if model not in self.suite.models or decoder not in self.suite.decoders:
            return True
        return any(can_pair(self.suite.decoders[decoder], entry.config) for entry in self.suite.models[model].all)

    def ambiguous(self, axis: str, names: Sequence[str]) -> Sequence[str]:
        """Return the names on an axis that would make a table cell ambiguous.

        Decoders for different models never compete: the largest set of decoders that fit the same model is returned.
        """
        if axis != "decoder":
            return names
        fitting = ([name for name in names if self.fits(model, name)] for model in self.suite.models)
        return max(fitting, key=len, default=names)

    def present(self, keys: Sequence[str | int], axis: str, name: str) -> None:
        """Report a name that is needed here but removed by the profile or `--set`."""
        if name in self.whole.get(f"{axis}s", ()) and name not in self.names(axis):
            text = f"{axis} {name!r} is needed here, but the profile or `--set` removes it. Keep it, or use another."
            self.problems.add(keys, text)

    def unlike(self, section: str, what: str, entries: Sequence[Any]) -> None:
        """Report duplicate ids in a section."""
        ids = [getattr(entry, "id", None) for entry in entries]
        for number, entry_id in enumerate(ids):
            if entry_id is not None and entry_id in ids[:number]:
                self.problems.add((section, number, "id"), f"two {what}s have the id {entry_id!r}.")


def join_names(names: Sequence[str]) -> str:
    """Join names for a message, truncated to the first few."""
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
