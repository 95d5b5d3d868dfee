"""Sections of suites that a plugin brings: what a run keeps for them, how that is merged, checked and verified."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_core.data import Outcome


@dataclass(frozen=True)
class CellStage:
    """A stage that a section wants of a cell: by name, with the settings that its key holds."""

    kind: str  #: of stages
    name: str
    settings: Mapping[str, Any]
    reads: str = "decode"  #: what of the cell its input `outcomes` is: `decode`, or `score/METRIC`


class Section:
    """Sections of a suite, such as `tables`, and the files that a run keeps for them; by default there are none.

    One object knows the format of these files: it writes, merges, reads and verifies them. The hook `bench_sections`
    returns such objects.
    """

    keys: Sequence[str] = ()  #: the top-level keys of suites that it reads
    files: Sequence[str] = ()  #: the names of the files that `keep` adds to folders of runs
    schema: str = ""  #: the `module:Class` of a pydantic model whose fields are the keys that the core does not read

    def expand(self, found: dict[str, Any], grids: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a suite has for its keys, with names of grids replaced by those of their combinations."""
        return found

    def beside(self, folder: Path, problems: Any) -> Mapping[str, Any]:
        """Return what it reads of files in the folder of a suite, by a name of its own; report `Problems` of them."""
        return {}

    def check(self, names: Any) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield what is wrong with its part of the `Suite` of some `Names`, each with the keys of the place."""
        return ()

    def hint(self, suite: Any, axis: str, name: str) -> str:
        """Return what to do about a name that a `Suite` does not have on an axis, if this section knows it."""
        return ""

    def unavailable(
        self, suite: Any, digests: Callable[[Any], Sequence[str]]
    ) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield what a `Suite` says of files and is not so, with the keys of the place; `digests` takes a task."""
        return ()

    def lists_tasks(self, suite: Any) -> bool:
        """Return whether it needs the tasks of a `Suite` for themselves, not for cells."""
        return False

    def stages(self, suite: Any, cell: Any) -> Iterable[CellStage]:
        """Return the stages that it wants of a `Cell`, after those of the core; what they give, runs name by cell."""
        return ()

    def details(
        self,
        suite: Any,
        cell: Mapping[str, Any],
        outcomes: Callable[[], Sequence[Outcome]],
        vocabulary: Sequence[str],
        hidden: Callable[[Sequence[Outcome]], Collection[int]],
    ) -> Sequence[Mapping[int, Mapping[str, Any]]]:
        """Return what it needs of single outputs of a cell of a `Suite`, as JSON by example id; runs keep that.

        `outcomes` reads all outputs of the cell; `hidden` returns the ids of examples that no report may show.
        """
        return ()

    def texts(self, suite: Any) -> Mapping[str, str]:
        """Return files that belong to the results of each run of a `Suite`, by name."""
        return {}

    def united(self, runs: Sequence[Any]) -> Mapping[str, str]:
        """Return the files of `texts` for a merged run of some `Run`s, by name."""
        return {}

    def kept(self, folder: Path) -> Mapping[str, Any]:
        """Return what `texts` wrote to the folder of a run, by the names of `beside`; raise ValueError if damaged."""
        return {}

    def alike(self, run: Any) -> Mapping[str, Mapping[str, Any]]:
        """Return what runs that are merged must have alike where they have it, as JSON: by kind, and by name."""
        return {}

    def keep(self, run: Any, store: Any) -> None:
        """Add files to the folder of a `Run` that was just written, from its `Store`."""

    def merge(self, runs: Sequence[Any], merged: Any) -> None:
        """Merge the files that `keep` added to the folders of `runs` into that of the `merged` run."""

    def read(self, run: Any) -> None:
        """Raise StoreError if a file that `keep` added to an imported `Run` is damaged."""

    def verify(self, run: Any, store: Any) -> Sequence[Any]:
        """Return `Remark`s where files that `keep` added contradict a `Store`; None if that is not here."""
        return ()

    def verify_report(self, folder: Path, run: Any) -> Sequence[Any]:
        """Return `Remark`s where files of a report contradict each other, or its `Run`; None if that is not here."""
        return ()
