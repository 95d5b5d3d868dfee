"""Permutation tests of tables, with their p-values stored in the run folder.

The examples to permute are in the store, but reports need the run folder only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench_core.errors import StoreError
from bench_core.runs.results import Run, plain_file
from bench_reports.content.contrasts import contrast
from bench_reports.content.example_diff import StoredEvidence, read_evidence
from bench_reports.content.grid import Grid, GridEntry, Test
from bench_reports.content.significance import mark_significance
from bench_reports.content.sorting import by_key, seed_of
from bench_reports.language.of_suite import language
from bench_reports.statistics.comparisons import holm
from bench_reports.statistics.permutation import REPLICATES

if TYPE_CHECKING:
    from bench_core.storage.store import Store

FILE = "permutations.json"  # name of the file in a run folder
PERMUTATIONS_PER_PAIR = 40  # permutations for each pair of rows, so that corrected p-values can be below 5 %


class PermutationResult(BaseModel):
    """The result of a permutation test of two numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    p: float = Field(ge=0, le=1)
    draws: int = Field(ge=1)  # number of permutations


def permutations(run: Run) -> Mapping[str, PermutationResult]:
    """Return the stored permutation tests of a run, by `pair_name`; raise StoreError if they are damaged."""
    path = run.folder / FILE
    if not any(table.test == "permutation" for table in language(run).tables) or not path.exists():
        return {}
    try:
        return TypeAdapter(dict[str, PermutationResult]).validate_json(plain_file(path))
    except (OSError, ValueError) as error:
        text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        why = " ".join(str(text).split())
        raise StoreError(f"{run.folder}: {FILE} cannot be read ({why}). Delete it, or run the suite again.") from None


def write_permutations(folder: Path, results: Mapping[str, PermutationResult]) -> None:
    """Write permutation tests to the run folder, if there are any."""
    if results:
        tests = {name: test.model_dump() for name, test in sorted(results.items())}
        (folder / FILE).write_text(json.dumps(tests, indent=1) + "\n", encoding="utf-8")


def with_permutation_tests(run: Run, grid: Grid) -> Grid:
    """Return a table with its permutation tests or, if the run lacks any of them, with a note that says so."""
    stored = permutations(run)
    names = [pair_name(ours, theirs) for ours, theirs, _ in compared_entries(grid)]
    lacking = sum(name not in stored for name in names)
    if lacking:
        text = f"No permutation tests: the run has only {len(names) - lacking:,} of the {len(names):,} required."
        return replace(grid, notes=[*grid.notes, text])
    return mark_significance(grid, [*_correct(grid, [stored[name] for name in names])])


def _correct(grid: Grid, results: Sequence[PermutationResult]) -> Iterator[Test]:
    """Yield the tests of a table with permutation p-values, corrected within each column.

    Any row could have been the best of its column, so the correction counts all pairs of rows.
    """
    groups = by_key((test.first, (test, result)) for test, result in zip(grid.tests, results, strict=True))
    for (row, column), pairs in groups.items():
        number = len(pairs) if grid.table.baseline else len(pairs) * (len(pairs) + 1) // 2
        alone = len(grid.entries[row][column].keys) == 1  # otherwise the detectable difference covers other runs
        for (test, result), p in zip(pairs, holm([result.p for _, result in pairs], number), strict=True):
            detectable = test.detectable if alone else 0.0
            yield replace(test, p=result.p, adjusted=p, exchanges=result.draws, detectable=detectable)


def pair_name(ours: GridEntry, theirs: GridEntry) -> str:
    """Return an order-independent name for a pair of numbers, from the keys of their measurements."""
    return sha256(json.dumps(sorted([[*ours.keys], [*theirs.keys]])).encode()).hexdigest()[:32]


def compared_entries(grid: Grid) -> Iterator[tuple[GridEntry, GridEntry, str]]:
    """Yield both entries of each test, and their metric."""
    for test in grid.tests:
        (row, column), (other, _) = test.first, test.other
        yield grid.entries[row][column], grid.entries[other][column], grid.columns[column].value


def keep_permutations(run: Run, filled: Iterable[Grid], store: Store) -> dict[str, str]:
    """Run the permutation tests of a run's tables and write the results to its folder.

    Earlier results for other numbers remain. Return why tests could not be run, by table and metric.
    """
    results, reasons = dict(permutations(run)), {}
    for grid in filled:
        if grid.table.test != "permutation":
            continue
        number = max(REPLICATES, PERMUTATIONS_PER_PAIR * len(grid.rows) * (len(grid.rows) - 1) // 2)
        for ours, theirs, metric in compared_entries(grid):
            name = pair_name(ours, theirs)
            if name in results and results[name].draws >= number:
                continue
            p = exchange_test(run, store, metric, (ours, theirs), number)
            if isinstance(p, str):
                reasons[f"{grid.table.id}, {metric}"] = p
            else:
                results[name] = PermutationResult(p=p, draws=number)
    write_permutations(run.folder, results)
    return reasons


def exchange_test(run: Run, store: Store, metric: str, entries: Sequence[GridEntry], draws: int) -> float | str:
    """Return the p-value of two entries of a table, paired by seed, or the reason why there is none."""
    by_measurement = {cell.artifacts.get(f"measure/{metric}", ""): cell for cell in run.cells}
    ours, theirs = ([by_measurement[key] for key in entry.keys] for entry in entries)
    seeds = [[seed_of(cell) for cell in side] for side in (ours, theirs)]
    if seeds[0] != seeds[1]:
        return f"the seeds differ: {', '.join(map(str, seeds[0]))} and {', '.join(map(str, seeds[1]))}"
    evidence = read_evidence(StoredEvidence(store), contrast(metric, [*zip(ours, theirs, strict=True)]))
    return evidence if isinstance(evidence, str) else evidence.p_value(draws)
