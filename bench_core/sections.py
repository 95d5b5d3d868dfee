"""Sections of suites that a plugin brings: what a run keeps for them, how that is merged, checked and verified."""

from __future__ import annotations

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
    schema: Mapping[str, str] = {}  #: those that the core does not read, each with the `module:Class` of its value

    def check(self, suite: Any) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield what is wrong with its part of a `Suite`, each with the keys of the place."""
        return ()

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
