"""The interface of suite sections that plugins add: their files in runs, and how these are merged and verified."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_core.data import Prediction


@dataclass(frozen=True)
class CellStage:
    """A stage that a section requests for a cell."""

    kind: str  #: name of a stage kind
    name: str
    settings: Mapping[str, Any]  #: settings in its key
    reads: str = "decode"  #: the cell's stage that is its input `predictions`: `decode` or `score/METRIC`


class Section:
    """Handles sections of a suite, such as `tables`, and their files in runs; by default none.

    An instance writes, merges, reads and verifies these files, whose format only it knows. The hook
    `bench_sections` returns instances.
    """

    keys: Sequence[str] = ()  #: top-level keys of suites that it reads
    files: Sequence[str] = ()  #: names of the files that `keep` adds to run folders
    schema: str = ""  #: `module:Class` of a pydantic model whose fields are the keys that the core does not read

    def expand(self, sections: dict[str, Any], grids: Mapping[str, Any]) -> dict[str, Any]:
        """Return a suite's values of its keys, with names of grids replaced by the names of their combinations."""
        return sections

    def beside(self, folder: Path, problems: Any) -> Mapping[str, Any]:
        """Read files in the folder of a suite; return data by names of its choice, and report `Problems`."""
        return {}

    def check(self, names: Any) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield errors in its sections of the `Suite` of some `Names`, each with the keys of its place."""
        return ()

    def hint(self, suite: Any, axis: str, name: str) -> str:
        """Return advice about a name that is missing from an axis of a `Suite`; empty if it has none."""
        return ""

    def unavailable(
        self, suite: Any, digests: Callable[[Any], Sequence[str]]
    ) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield false claims of a `Suite` about files, with the keys of their place; `digests` takes a task."""
        return ()

    def lists_tasks(self, suite: Any) -> bool:
        """Return whether it needs the tasks of a `Suite` even without cells."""
        return False

    def stages(self, suite: Any, cell: Any) -> Iterable[CellStage]:
        """Return the stages that it requests for a `Cell`, after the core's; runs list their artifacts by cell."""
        return ()

    def details(
        self,
        suite: Any,
        cell: Mapping[str, Any],
        predictions: Callable[[], Sequence[Prediction]],
        vocabulary: Sequence[str],
        hidden: Callable[[Sequence[Prediction]], Collection[int]],
    ) -> Sequence[Mapping[int, Mapping[str, Any]]]:
        """Return the details of single outputs of a cell that it needs, as JSON data by example id, stored in runs.

        `predictions` reads all outputs of the cell; `hidden` returns the ids of examples that reports may not show.
        """
        return ()

    def texts(self, suite: Any) -> Mapping[str, str]:
        """Return text files to add to the results of every run of a `Suite`, by name."""
        return {}

    def united(self, runs: Sequence[Any]) -> Mapping[str, str]:
        """Return the files of `texts` for a run merged from `Run`s, by name."""
        return {}

    def read_texts(self, folder: Path) -> Mapping[str, Any]:
        """Read the files of `texts` in a run folder; return data as `beside` does, raise ValueError if damaged."""
        return {}

    def alike(self, run: Any) -> Mapping[str, Mapping[str, Any]]:
        """Return data that must agree between merged runs that have it, as JSON by kind and name."""
        return {}

    def keep(self, run: Any, store: Any) -> None:
        """Add files to the folder of a newly written `Run`, from its `Store`."""

    def merge(self, runs: Sequence[Any], merged: Any) -> None:
        """Merge the files that `keep` added to `runs` into the folder of the `merged` run."""

    def read(self, run: Any) -> None:
        """Raise StoreError if a file that `keep` added to an imported `Run` is damaged."""

    def verify(self, run: Any, store: Any) -> Sequence[Any]:
        """Return `Remark`s where files that `keep` added contradict the `Store`; that is None if not available."""
        return ()

    def verify_report(self, folder: Path, run: Any) -> Sequence[Any]:
        """Return `Remark`s where files of a report contradict each other or the `Run`, None if not available."""
        return ()
