"""The sections of suites that reports are made of; imports nothing heavy."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core import Outcome, hookimpl
from bench_core.sections import Section
from bench_reports import hooks as hookspecs
from bench_reports.language.of_suite import language

if TYPE_CHECKING:
    from bench_core.runs.manifest import Remark
    from bench_core.runs.results import Run
    from bench_core.storage.store import Store
    from bench_core.suites.names import Names
    from bench_core.suites.suite import Suite
    from bench_reports.language.published import Published
    from placed_settings import Problems


PUBLISHED = "published.json"  #: of a run: the published tables that it shows

__all__ = ["bench_sections", "hookspecs"]


@hookimpl
def bench_sections(api: int) -> list[Section]:
    """Return the sections that reports are made of."""
    return [Contents()]


def _written(tables: Mapping[str, Published]) -> str:
    from bench_reports.language.published import plain

    return json.dumps(plain(tables), indent=1, ensure_ascii=False)


class Contents(Section):
    """Tables, figures, claims and choices: what figures show of single examples, and permutation tests."""

    keys = ("tables", "figures", "claims", "choose")
    schema = "bench_reports.language.schema:ReportSections"
    files = ("distributions.jsonl", "lengths.jsonl", "by_length.jsonl", "permutations.json")

    def expand(self, found: dict[str, Any], grids: Mapping[str, Any]) -> dict[str, Any]:
        """Replace names of grids in tables and figures, and fill in `chosen`."""
        from bench_reports.language.expansion import expanded

        return expanded(found, grids)

    def beside(self, folder: Path, problems: Problems) -> Mapping[str, Any]:
        """Return the published tables of `references/` beside a suite; none if one of them is invalid."""
        from bench_reports.language.published import load_published

        found = load_published(folder / "references", problems)
        return {} if found is None else {"published": found}

    def check(self, names: Names) -> Iterable[tuple[Sequence[str | int], str]]:
        """Report every problem of choices, tables, figures and claims at its place."""
        from bench_reports.language.choice_check import check_choices
        from bench_reports.language.figure_check import check_figures
        from bench_reports.language.table_check import check_tables
        from placed_settings import Unreadable

        for check in (check_choices, check_tables, check_figures):
            with suppress(Unreadable):
                check(names)
        if names.suite.sections.get("claims"):
            from bench_reports.language.claim_check import check_claims  # only suites with claims pay for it

            check_claims(names)
        return ()

    def hint(self, suite: Suite, axis: str, name: str) -> str:
        """Say which tables show the name of a chosen decoder."""
        chosen = (one for one in language(suite).choose if axis == "decoder" and name in getattr(one, "decoders", ()))
        first = next(chosen, None)
        return f"Tables with `chosen: {first.id}` show the chosen decoder under this name." if first else ""

    def unavailable(
        self, suite: Suite, digests: Callable[[Any], Sequence[str]]
    ) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield the digests of published test sets that no task reads."""
        said = [one.reference.same_examples if one.reference else "" for one in language(suite).tables]
        read = [one for task in (suite.tasks.values() if any(said) else ()) for one in digests(task)]
        for place, digest in enumerate(said):
            if digest and read and digest.removeprefix("sha256:") not in read:
                text = f"no task reads a file with the digest {digest}."
                keys = ("tables", place, "reference", "same_examples")
                yield keys, f"{text} Leave it out where the test set is another one."

    def lists_tasks(self, suite: Suite) -> bool:
        """Return whether a table is one of tasks."""
        return any(table.of == "tasks" for table in language(suite).tables)

    def texts(self, suite: Suite) -> Mapping[str, str]:
        """Return the published tables that tables of a suite show."""
        known = language(suite)
        used = {table.reference.table for table in known.tables if table.reference}
        return {PUBLISHED: _written({name: known.published[name] for name in sorted(used)})}

    def united(self, runs: Sequence[Run]) -> Mapping[str, str]:
        """Return the published tables of all runs."""
        return {PUBLISHED: _written({name: one for run in runs for name, one in language(run).published.items()})}

    def kept(self, folder: Path) -> Mapping[str, Any]:
        """Return the published tables in the folder of a run; none of one that was written without this plugin."""
        from bench_core.runs.results import reading
        from bench_core.storage.file_formats import parsed
        from bench_reports.language.published import Published

        if not (folder / PUBLISHED).exists():
            return {"published": {}}
        with reading(folder, PUBLISHED) as content:
            return {"published": parsed(dict[str, Published], content)}

    def alike(self, run: Run) -> Mapping[str, Mapping[str, Any]]:
        """Return the published tables of a run."""
        from bench_reports.language.published import plain

        return {"published": plain(language(run).published)}

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

        figures = [one for one in language(suite).figures if one.covers(cell)]
        found: Sequence[Mapping[int, Mapping[str, Any]]] = hook().bench_samples(
            figures=figures, outcomes=outcomes, vocabulary=vocabulary, hidden=hidden
        )
        return found

    def keep(self, run: Run, store: Store) -> None:
        """Keep what figures show of single examples, and do the permutation tests that tables ask for."""
        from bench_reports.figures.example_files import EXAMPLE_FILES

        for one in EXAMPLE_FILES:
            one.keep(run, store)
        if any(table.test == "permutation" for table in language(run).tables):
            from bench_reports.content.permutation_tests import keep_permutations
            from bench_reports.content.tables import grids

            keep_permutations(run, grids(run), store)

    def merge(self, runs: Sequence[Run], merged: Run) -> None:
        """Merge what figures show of single examples, and permutation tests; they belong to stages, not to runs."""
        from bench_reports.content.permutation_tests import permutations, write_permutations
        from bench_reports.figures.example_files import EXAMPLE_FILES

        for file in EXAMPLE_FILES:
            file.merge(runs, merged)
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
