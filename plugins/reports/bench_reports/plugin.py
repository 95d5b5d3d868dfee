"""The sections of suites that reports are made of; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core import Outcome, hookimpl
from bench_core.sections import Section
from bench_reports import hooks as hookspecs

if TYPE_CHECKING:
    from bench_core.runs.manifest import Remark
    from bench_core.runs.results import Run
    from bench_core.storage.store import Store


__all__ = ["bench_sections", "hookspecs"]


@hookimpl
def bench_sections(api: int) -> list[Section]:
    """Return the sections that reports are made of."""
    return [Contents()]


class Contents(Section):
    """Tables, figures, claims and choices: what figures show of single examples, and permutation tests."""

    keys = ("tables", "figures", "claims", "choose")
    files = ("distributions.jsonl", "lengths.jsonl", "by_length.jsonl", "permutations.json")

    def details(
        self,
        suite: Any,
        cell: Mapping[str, Any],
        outcomes: Callable[[], Sequence[Outcome]],
        vocabulary: Sequence[str],
        hidden: Callable[[Sequence[Outcome]], Collection[int]],
    ) -> Sequence[Mapping[int, Mapping[str, Any]]]:
        """Return what the figures about a cell need of its outputs, by the plugins that draw them."""
        from bench_core.registry import hook

        figures = [one for one in suite.figures if one.covers(cell)]
        found: Sequence[Mapping[int, Mapping[str, Any]]] = hook().bench_samples(
            figures=figures, outcomes=outcomes, vocabulary=vocabulary, hidden=hidden
        )
        return found

    def keep(self, run: Run, store: Store) -> None:
        """Keep what figures show of single examples, and do the permutation tests that tables ask for."""
        from bench_reports.figures.example_files import EXAMPLE_FILES

        for one in EXAMPLE_FILES:
            one.keep(run, store)
        if any(table.test == "permutation" for table in run.suite.tables):
            from bench_reports.content.permutation_tests import keep_permutations
            from bench_reports.content.tables import grids

            keep_permutations(run, grids(run), store)

    def merge(self, runs: Sequence[Run], merged: Run) -> None:
        """Merge what figures show of single examples, and permutation tests; they belong to stages, not to runs."""
        from bench_reports.figures.example_files import EXAMPLE_FILES

        for file in EXAMPLE_FILES:
            file.merge(runs, merged)
        if any(table.test == "permutation" for run in runs for table in run.suite.tables):
            from bench_reports.content.permutation_tests import permutations, write_permutations

            write_permutations(merged.folder, {name: one for run in runs for name, one in permutations(run).items()})

    def read(self, run: Run) -> None:
        """Check what a run keeps for figures of single examples, and its permutation tests."""
        from bench_reports.content.permutation_tests import permutations
        from bench_reports.figures.example_files import EXAMPLE_FILES

        for one in EXAMPLE_FILES:
            one.read(run)
        permutations(run)

    def verify(self, run: Run, store: Store | None) -> Sequence[Remark]:
        """Compare what a run keeps for figures, and its permutation tests, with the store."""
        from bench_reports.verification.run import verify_run

        return [*verify_run(run, store)]

    def verify_report(self, folder: Path, run: Run | None) -> Sequence[Remark]:
        """Compare the files of a report with each other, and with its run."""
        from bench_reports.verification.report import verify_report

        return [*verify_report(folder, run)]
