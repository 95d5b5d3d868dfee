"""The names that a suite defines, and lookups among them."""

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

MOST_NAMES = 8  # in one message

#: A check of an entry of a list section, such as a table: the names, the keys to the entry, and the entry.
Check = Callable[["Names", list[str | int], Any], None]


@dataclass
class Names:
    """The names of a suite, and where their problems are reported."""

    suite: Suite
    source: Located
    problems: Problems
    whole: Mapping[str, set[str]]  # what the suite names without its profile

    def names(self, axis: str) -> list[str]:
        """Return the names of the suite on an axis, or of its metrics."""
        section = SECTIONS.get(axis)
        if section:
            found = self.source.data.get(section) or {}
            if not isinstance(found, Mapping):
                raise Unreadable(section)
            return [*found]
        return list(self.suite.splits) if axis == "split" else list(self.suite.hardware)

    def each(self, section: str, entries: Sequence[Any], checks: Iterable[Check]) -> None:
        """Run checks on every entry of a section; those that read an invalid setting say nothing."""
        for check in checks:
            for number, one in enumerate(entries):
                with suppress(Unreadable):
                    check(self, [section, number], one)

    def known(self, keys: Sequence[str | int], axis: str, names: Iterable[str], more: Iterable[str] = ()) -> None:
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
        """Note a name that `--set` removes."""
        if (axis, name) in self.problems.removed and name not in self.names(axis):
            note = f"{axis} {name!r} is left out here: `--set {axis}s.{name}=null` removes it."
            self.problems.notes.append(f"{self.source.place(keys)}: {note}")

    def fits(self, model: str, decoder: str) -> bool:
        """Return whether a model and a decoder can stand in one cell; True of names that are not known."""
        if model not in self.suite.models or decoder not in self.suite.decoders:
            return True
        return any(can_pair(self.suite.decoders[decoder], one.config) for one in self.suite.models[model].all)

    def ambiguous(self, axis: str, names: Sequence[str]) -> Sequence[str]:
        """Return those of several names on an axis that one cell of a table could be of.

        Decoders that fit different models are told apart by these: the most that fit one model are left.
        """
        if axis != "decoder":
            return names
        fitting = ([name for name in names if self.fits(model, name)] for model in self.suite.models)
        return max(fitting, key=len, default=names)

    def present(self, keys: Sequence[str | int], axis: str, name: str) -> None:
        """Report a name that the suite defines, and a profile or `--set` removes, where it is needed."""
        if name in self.whole.get(f"{axis}s", ()) and name not in self.names(axis):
            text = f"{axis} {name!r} is needed here, and the profile or `--set` removes it. Keep it, or name another."
            self.problems.add(keys, text)

    def unlike(self, section: str, what: str, entries: Sequence[Any]) -> None:
        """Report duplicate ids in a section."""
        ids = [getattr(one, "id", None) for one in entries]
        for number, one in enumerate(ids):
            if one is not None and one in ids[:number]:
                self.problems.add((section, number, "id"), f"two {what}s have the id {one!r}.")


def listed(names: Sequence[str]) -> str:
    """Return names for a message, shortened to the first few."""
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
