"""The interface of suite sections that plugins add, and of the files that these sections store in runs."""

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
    reads: str = "decode"  #: stage of the cell that provides its `predictions`: `decode` or `score/METRIC`


class Section:
    """Handles sections of a suite, such as `tables`, and their files in runs; does nothing by default.

    An instance writes, merges, reads and verifies these files, and alone defines their format. The hook
    `bench_sections` returns instances.
    """

    keys: Sequence[str] = ()  #: top-level suite keys that it reads
    files: Sequence[str] = ()  #: names of the files that `keep` adds to run folders
    schema: str = ""  #: `module:Class` of a pydantic model whose fields are the keys that the core does not read

    def expand(self, sections: dict[str, Any], grids: Mapping[str, Any]) -> dict[str, Any]:
        """Return `sections` with each name of a grid replaced by the names of its combinations."""
        return sections

    def beside(self, folder: Path, problems: Any) -> Mapping[str, Any]:
        """Read files in a suite's folder; return data under names that the section chooses, and report `Problems`."""
        return {}

    def check(self, names: Any) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield the keys and text of each error in its sections, given the `Names` of a suite."""
        return ()

    def hint(self, suite: Any, axis: str, name: str) -> str:
        """Return advice about a name that is missing from an axis of a `Suite`; empty if there is none."""
        return ""

    def unavailable(
        self, suite: Any, digests: Callable[[Any], Sequence[str]]
    ) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield the keys and text of each false statement of a `Suite` about files; `digests` takes a task."""
        return ()

    def lists_tasks(self, suite: Any) -> bool:
        """Return whether it needs the tasks of a `Suite` even without cells."""
        return False

    def stages(self, suite: Any, cell: Any) -> Iterable[CellStage]:
        """Return the stages requested for a `Cell` in addition to the core's; runs list their artifacts by cell."""
        return ()

    def details(
        self,
        suite: Any,
        cell: Mapping[str, Any],
        predictions: Callable[[], Sequence[Prediction]],
        vocabulary: Sequence[str],
        hidden: Callable[[Sequence[Prediction]], Collection[int]],
    ) -> Sequence[Mapping[int, Mapping[str, Any]]]:
        """Return the details to store about single outputs of a cell, as JSON data by example id.

        `predictions` reads all outputs of the cell; `hidden` returns the ids of examples that reports may not show.
        """
        return ()

    def texts(self, suite: Any) -> Mapping[str, str]:
        """Return the contents, by name, of text files to add to the results of every run of a `Suite`."""
        return {}

    def united(self, runs: Sequence[Any]) -> Mapping[str, str]:
        """Return the contents, by name, of the files of `texts` for a run merged from `Run`s."""
        return {}

    def read_texts(self, folder: Path) -> Mapping[str, Any]:
        """Read the files of `texts` in a run folder and return data like `beside`; raise ValueError if damaged."""
        return {}

    def alike(self, run: Any) -> Mapping[str, Mapping[str, Any]]:
        """Return data, as JSON by kind and name, that must agree between all merged runs that contain it."""
        return {}

    def keep(self, run: Any, store: Any) -> None:
        """Add files to the folder of a newly written `Run`, from its `Store`."""

    def merge(self, runs: Sequence[Any], merged: Any) -> None:
        """Merge the files that `keep` added to `runs` into the folder of the `merged` run."""

    def read(self, run: Any) -> None:
        """Raise StoreError if a file that `keep` added to an imported `Run` is damaged."""

    def verify(self, run: Any, store: Any) -> Sequence[Any]:
        """Return a `Remark` for each contradiction between files of `keep` and the `Store`, which may be None."""
        return ()

    def verify_report(self, folder: Path, run: Any) -> Sequence[Any]:
        """Return a `Remark` for each contradiction between files of a report or with the `Run`, which may be None."""
        return ()
