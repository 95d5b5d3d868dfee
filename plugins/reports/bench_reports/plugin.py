"""The suite sections of reports; imports nothing heavy."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core import Prediction, hookimpl
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


PUBLISHED = "published.json"  #: file of a run with its published tables

__all__ = ["bench_sections", "hookspecs"]


@hookimpl
def bench_sections(api: int) -> list[Section]:
    """Return the suite sections of reports."""
    return [ReportContents()]


def _json_text(tables: Mapping[str, Published]) -> str:
    from bench_reports.language.published import plain

    return json.dumps(plain(tables), indent=1, ensure_ascii=False)


class ReportContents(Section):
    """Tables, figures, claims and choices, with the example files of figures and with permutation tests."""

    keys = ("tables", "figures", "claims", "choose")
    schema = "bench_reports.language.schema:ReportSections"
    files = ("distributions.jsonl", "lengths.jsonl", "by_length.jsonl", "permutations.json")

    def expand(self, parsed: dict[str, Any], grids: Mapping[str, Any]) -> dict[str, Any]:
        """Replace names of grids in tables and figures, and fill in `chosen`."""
        from bench_reports.language.expansion import expanded

        return expanded(parsed, grids)

    def beside(self, folder: Path, problems: Problems) -> Mapping[str, Any]:
        """Return the published tables in the suite's folder `references/`; no tables if any table is invalid."""
        from bench_reports.language.published import load_published

        published = load_published(folder / "references", problems)
        return {} if published is None else {"published": published}

    def check(self, names: Names) -> Iterable[tuple[Sequence[str | int], str]]:
        """Report all problems with choices, tables, figures and claims with their locations."""
        from bench_reports.language.choice_check import check_choices
        from bench_reports.language.figure_check import check_figures
        from bench_reports.language.table_check import check_tables
        from placed_settings import Unreadable

        for check in (check_choices, check_tables, check_figures):
            with suppress(Unreadable):
                check(names)
        if names.suite.sections.get("claims"):
            from bench_reports.language.claim_check import check_claims  # slow import, only for suites with claims

            check_claims(names)
        return ()

    def hint(self, suite: Suite, axis: str, name: str) -> str:
        """Return a hint on the tables that show a chosen decoder under this name."""
        choices = (
            choice for choice in language(suite).choose
            if axis == "decoder" and name in getattr(choice, "decoders", ())
        )  # fmt: skip
        first = next(choices, None)
        return f"Tables with `chosen: {first.id}` show the chosen decoder under this name." if first else ""

    def unavailable(
        self, suite: Suite, digests: Callable[[Any], Sequence[str]]
    ) -> Iterable[tuple[Sequence[str | int], str]]:
        """Yield the digests of published test sets that no task reads."""
        declared = [table.reference.same_examples if table.reference else "" for table in language(suite).tables]
        read = [digest for task in (suite.tasks.values() if any(declared) else ()) for digest in digests(task)]
        for place, digest in enumerate(declared):
            if digest and read and digest.removeprefix("sha256:") not in read:
                text = f"no task reads a file with the digest {digest}."
                keys = ("tables", place, "reference", "same_examples")
                yield keys, f"{text} Remove it if the test sets differ."

    def lists_tasks(self, suite: Suite) -> bool:
        """Return whether any table lists tasks."""
        return any(table.of == "tasks" for table in language(suite).tables)

    def texts(self, suite: Suite) -> Mapping[str, str]:
        """Return the published tables that a suite uses."""
        reports = language(suite)
        used = {table.reference.table for table in reports.tables if table.reference}
        return {PUBLISHED: _json_text({name: reports.published[name] for name in sorted(used)})}

    def united(self, runs: Sequence[Run]) -> Mapping[str, str]:
        """Return the published tables of all runs."""
        return {
            PUBLISHED: _json_text({name: table for run in runs for name, table in language(run).published.items()})
        }

    def read_texts(self, folder: Path) -> Mapping[str, Any]:
        """Return the published tables in a run folder; none if the run was written without this plugin."""
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
        predictions: Callable[[], Sequence[Prediction]],
        vocabulary: Sequence[str],
        hidden: Callable[[Sequence[Prediction]], Collection[int]],
    ) -> Sequence[Mapping[int, Mapping[str, Any]]]:
        """Return the data about outputs for the figures of a cell, from the plugins that draw them."""
        from bench_core.registry import hook

        figures = [figure for figure in language(suite).figures if figure.covers(cell)]
        samples: Sequence[Mapping[int, Mapping[str, Any]]] = hook().bench_samples(
            figures=figures, predictions=predictions, vocabulary=vocabulary, hidden=hidden
        )
        return samples

    def keep(self, run: Run, store: Store) -> None:
        """Write the example files of figures to the run folder, and run the permutation tests of tables."""
        from bench_reports.figures.example_files import EXAMPLE_FILES

        for file in EXAMPLE_FILES:
            file.keep(run, store)
        if any(table.test == "permutation" for table in language(run).tables):
            from bench_reports.content.permutation_tests import keep_permutations
            from bench_reports.content.tables import grids

            keep_permutations(run, grids(run), store)

    def merge(self, runs: Sequence[Run], merged: Run) -> None:
        """Merge the example files of figures and the permutation tests, which belong to stages, not to runs."""
        from bench_reports.content.permutation_tests import permutations, write_permutations
        from bench_reports.figures.example_files import EXAMPLE_FILES

        for file in EXAMPLE_FILES:
            file.merge(runs, merged)
        write_permutations(merged.folder, {name: test for run in runs for name, test in permutations(run).items()})

    def read(self, run: Run) -> None:
        """Check the example files of figures and the permutation tests of a run."""
        from bench_reports.content.permutation_tests import permutations
        from bench_reports.figures.example_files import EXAMPLE_FILES

        for file in EXAMPLE_FILES:
            file.read(run)
        permutations(run)

    def verify(self, run: Run, store: Store | None) -> Sequence[Remark]:
        """Compare the example files of figures and the permutation tests of a run with the store."""
        from bench_reports.verification.run import verify_run

        return [*verify_run(run, store)]

    def verify_report(self, folder: Path, run: Run | None) -> Sequence[Remark]:
        """Compare the files of a report with one another and with its run."""
        from bench_reports.verification.report import verify_report

        return [*verify_report(folder, run)]
