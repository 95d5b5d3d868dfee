"""Notes below tables as plain text, for readers and for reproduction."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench_core.runs.results import Run
from bench_reports.content.conditions import (
    MAX_REASON_CHARACTERS,
    corpus_note,
    description,
    run_limits,
    span,
    with_quotation_marks,
)
from bench_reports.content.environments import unlike, unverified
from bench_reports.content.grid import Grid
from bench_reports.content.labels import TableLabels
from bench_reports.content.numbers import rounded
from bench_reports.content.outputs import shortened
from bench_reports.content.sorting import by_key, name_on
from bench_reports.content.verdicts import obstacles, same_examples

MEANING_OF_VERDICTS = (
    "Equivalent: the 90 % interval of the difference lies within the tolerance. Better, worse: its 95 % interval "
    "lies beyond the tolerance. An unpublished standard deviation is assumed to equal ours; with a single seed, "
    "there is no verdict in this case."
)
OTHER_EXAMPLES = "The published test set is treated as another sample with the same sampling error as ours."


NO_INTERVAL = (
    "No interval where training runs appear to differ qualitatively: at least a third are at a bound of the metric, "
    "or their mean is within one standard deviation of a bound."
)
MAX_APART = 5  # numbers listed in a note


def footnotes(run: Run, grid: Grid) -> list[str]:
    """Return the footnotes of a table as plain text."""
    notes = [with_quotation_marks(grid.table.note), *grid.notes, unverified(run, grid.cells)]
    if grid.table.of == "results":
        notes += [_seeds(run, grid), _errors(run, grid), *_apart(run, grid)]
        notes += [*_significance(run, grid), _summary_note(grid)]
    if grid.table.of == "tasks":
        notes.append(corpus_note(run, [row.label for row in grid.rows]))
    return [*filter(None, [*notes, _published_note(grid), *_reasons(grid)])]


def details(run: Run, grid: Grid) -> list[str]:
    """Return how the numbers of a table were measured, for reproduction."""
    about = [*_files([grid]), *_metrics([grid]), run_limits(run)] if grid.table.of == "results" else []
    tasks = [name_on(cell, "task") for cell in grid.cells]
    return [*filter(None, [*about, unlike(run, grid.cells), corpus_note(run, tasks)])]


def measurement(run: Run, filled: Sequence[Grid]) -> list[str]:
    """Return how the numbers of all tables were measured."""
    of_results = [grid for grid in filled if grid.table.of == "results"]
    cells = {id(cell): cell for grid in of_results for cell in grid.cells}
    if not of_results:
        return []
    return [*filter(None, [*_metrics(of_results), *_files(of_results), unlike(run, [*cells.values()])])]


def rules(run: Run, grid: Grid) -> list[str]:
    """Return the notes that explain the verdicts of a table."""
    assert grid.table.reference
    difference = "Difference: ours minus published."
    if notes := obstacles(run, grid.table):
        return [
            difference,
            *(f"Not comparable: {shortened(reason.rstrip('.'), MAX_REASON_CHARACTERS)}." for reason in notes),
        ]
    assert grid.published
    notes = [difference, MEANING_OF_VERDICTS]
    compared = [entry for row in grid.entries for entry in row if entry.comparison and entry.cells]
    if compared and not all(same_examples(run, grid.table.reference, entry) for entry in compared):
        notes.append(OTHER_EXAMPLES)
    tolerance = grid.published.tolerance
    named = tolerance.items() if isinstance(tolerance, dict) else [("", tolerance)] if tolerance else []
    for name, limit in named:
        notes.append(f"Tolerance{f' for {name}' if name else ''}: {limit.within:g} ({limit.why.rstrip('.')}).")
    return notes if named else [*notes, "No tolerance is given, so no number counts as equivalent."]


def content(run: Run, grid: Grid) -> str:
    """Return the only metric of a table, if its headings do not show it."""
    table, labels = grid.table, TableLabels.of(run, grid.table)
    columns = [column for column in grid.columns if column.value and column.names is not None]
    if table.of != "results" or len(table.values) != 1 or not table.columns or not columns:
        return ""
    number = columns[0].number
    way = {1: ", higher is better", -1: ", lower is better"}.get(number.better, "")
    return f"{labels.metric(table.values[0], replace(number, better=0))}{way}."


def _seeds(run: Run, grid: Grid) -> str:
    """Return the note on means, spreads and numbers of seeds."""
    pairs = [pair for row in grid.entries for pair in zip(row, grid.columns, strict=True)]
    done = [entry for entry, column in pairs if column.of == "cells" and entry.status == "done"]
    if not done:
        return ""
    seeds = {entry.seeds for entry in done if not entry.fixed}
    if not seeds:
        return f"Fixed systems without seeds{'; 95 % intervals' if grid.table.spread == 'interval' else ''}."
    over = f"over {span(seeds)} seeds"
    text = {
        "std": f"Mean ± standard deviation {over}." if seeds != {1} else "One seed.",
        "interval": f"Mean {over} with 95 % interval." if seeds != {1} else "One seed, with 95 % interval.",
        "none": f"Mean {over}." if seeds != {1} else "One seed.",
    }[grid.table.spread]
    labels, rows = TableLabels.of(run, grid.table), zip(grid.rows, grid.entries, strict=True)
    if fixed := [", ".join(labels.row(row)) for row, entries in rows if any(entry.fixed for entry in entries)]:
        text += f" Fixed {'systems' if len(fixed) > 1 else 'system'} without seeds: {', '.join(fixed)}."
    if any(not entry.complete for entry in done):
        text += " †k/n: mean over only k of n seeds; the others have no number."
    return text


def _summary_note(grid: Grid) -> str:
    """Return the note that explains averages and ranks."""
    kinds, notes = {column.of for column in grid.columns}, []
    if "average" in kinds:
        logarithmic = any(column.of == "average" and column.number.scale == "log" for column in grid.columns)
        notes.append(f"Average: {'geometric ' * logarithmic}mean over the columns of a metric.")
    if "ranks" in kinds:
        notes.append("Rank: mean rank over the columns of a metric (1 = best).")
    return " ".join(notes)


def _significance(run: Run, grid: Grid) -> Iterable[str]:
    """Yield the notes on bold numbers, stars, detectable differences and untested numbers."""
    from bench_reports.content.significance import detectable_differences, method

    labels = TableLabels.of(run, grid.table)
    if grid.tests:
        yield method(run, grid, labels)
    if detectable := detectable_differences(grid, labels):
        yield f"Minimum detectable difference (80 % power): {', '.join(detectable)}."
    for reason in dict.fromkeys(entry.untested for row in grid.entries for entry in row if entry.untested):
        yield f"Some numbers are not tested: {reason}."


def _errors(run: Run, grid: Grid) -> str:
    """Return the note on the standard errors of sampling within a model."""
    labels, words = TableLabels.of(run, grid.table), []
    numbers = {column.value: column.number for column in reversed(grid.columns)}
    pairs = [pair for row in grid.entries for pair in zip(grid.columns, row, strict=True)]
    for name, errors in by_key((column.value, entry.error) for column, entry in pairs if entry.error).items():
        ends = dict.fromkeys(f"{end:.2g}" for end in (min(errors), max(errors)))
        words.append(f"{labels.plain_metric(name, numbers[name])} {' to '.join(ends)}")
    return f"Standard errors of the sampling estimates: {', '.join(words)}." if words else ""


def _apart(run: Run, grid: Grid) -> Iterable[str]:
    """Yield the notes on numbers without interval, whose training runs differ in kind, with each number by seed."""
    labels, texts = TableLabels.of(run, grid.table), []
    for row, entries in zip(grid.rows, grid.entries, strict=True):
        for column, entry in zip(grid.columns, entries, strict=True):
            if entry.apart and (grid.table.spread == "interval" or len(set(entry.apart)) > 1):
                name = ", ".join([*labels.row(row), *((column.names and column.shown) or ())])
                texts.append(f"{name} {', '.join(rounded(value, column.number.digits) for value in entry.apart)}")
    if texts:
        yield NO_INTERVAL
    if texts and grid.table.spread != "interval":
        more = f"; and {len(texts) - MAX_APART:,} more" if len(texts) > MAX_APART else ""
        yield f"No interval, by seed: {'; '.join(texts[:MAX_APART])}{more}."


def _files(filled: Sequence[Grid]) -> Iterable[str]:
    """Yield the note on the files with intervals and p-values."""
    ids = [grid.table.id for grid in filled if any(entry.interval for row in grid.entries for entry in row)]
    if ids:
        yield f"95 % intervals and p-values are in {', '.join(f'tables/{name}.csv' for name in ids)}."


def _metrics(filled: Iterable[Grid]) -> Iterable[str]:
    """Yield a description of each metric, for each kind and signature of its numbers."""
    pairs = (
        (column, row[place]) for grid in filled for place, column in enumerate(grid.columns) for row in grid.entries
        if column.of == "cells" and row[place].status == "done"
    )  # fmt: skip
    variants = by_key(
        ((column.value, column.number.kind, column.number.signature), (column, entry)) for column, entry in pairs
    )
    for (value, *_), members in variants.items():
        others = len([variant for variant in variants if variant[0] == value]) > 1
        where = f" ({', '.join(dict.fromkeys(column.heading for column, _ in members))})" if others else ""
        examples = {count for _, entry in members for count in entry.examples}
        cells = [cell for _, entry in members for cell in entry.cells]
        yield f"{value}{where}: {description(members[0][0].number, examples, cells, value)}."


def _published_note(grid: Grid) -> str:
    printed = grid.published
    if not printed or not any(entry.published for row in grid.entries for entry in row):
        return ""
    runs = f"{printed.runs} run{'s' if printed.runs > 1 else ''}" if printed.runs else ""
    words = [printed.paper, printed.place, f"corpus {printed.corpus}" if printed.corpus else "", runs]
    note = f" {printed.note[0].upper()}{printed.note[1:].rstrip('.')}." if printed.note else ""
    return f"Small type: published values ({', '.join(filter(None, words))}).{note}"


def _reasons(grid: Grid) -> Iterable[str]:
    yield from (
        f"[{place}] {shortened(reason, MAX_REASON_CHARACTERS)}" for place, reason in enumerate(grid.reasons, 1)
    )
    if any(len(entry.reasons) > 1 for row in grid.entries for entry in row):
        yield "If seeds are missing for different reasons, only the first reason is listed."
