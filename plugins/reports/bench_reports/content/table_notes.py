"""Notes below tables, for readers and for those who measure again, as plain text."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench_core.runs.results import Run
from bench_reports.content.conditions import LONGEST, corpus_note, description, quoted, run_limits, span
from bench_reports.content.environments import unlike, unverified
from bench_reports.content.grid import Grid
from bench_reports.content.labels import Labels
from bench_reports.content.numbers import rounded
from bench_reports.content.outputs import shortened
from bench_reports.content.sorting import by_key, name_on
from bench_reports.content.verdicts import obstacles, same_examples

MEANING_OF_VERDICTS = (
    "Equivalent: the 90 % interval of the difference is within the tolerance; better, worse: its 95 % interval is "
    "beyond it. A standard deviation that is not printed is taken as ours; with one seed and none printed: none."
)
OTHER_EXAMPLES = "The published test set is taken for another sample, with an error like that of ours."


NO_INTERVAL = (
    "No interval where trainings seem to differ in kind: a third of them are at a bound of the metric, or their mean "
    "is nearer to one than their standard deviation"
)
MOST_APART = 5  # numbers in a note


def footnotes(run: Run, grid: Grid) -> list[str]:
    """Return what a reader of a table has to know, as plain text."""
    found = [quoted(grid.table.note), *grid.notes, unverified(run, grid.cells)]
    if grid.table.of == "results":
        found += [_content(run, grid), _seeds(run, grid), _errors(run, grid), _apart(run, grid)]
        found += [*_significance(run, grid), _added(grid)]
    if grid.table.of == "tasks":
        found.append(corpus_note(run, [row.label for row in grid.rows]))
    return [*filter(None, [*found, _published(grid), *_reasons(grid)])]


def details(run: Run, grid: Grid) -> list[str]:
    """Return how the numbers of a table were measured, for those who measure them again."""
    about = [*_files([grid]), *_metrics([grid]), run_limits(run)] if grid.table.of == "results" else []
    tasks = [name_on(one, "task") for one in grid.cells]
    return [*filter(None, [*about, unlike(run, grid.cells), corpus_note(run, tasks)])]


def measurement(run: Run, filled: Sequence[Grid]) -> list[str]:
    """Return how the numbers of all tables were measured."""
    of_results = [grid for grid in filled if grid.table.of == "results"]
    cells = {id(one): one for grid in of_results for one in grid.cells}
    if not of_results:
        return []
    return [*filter(None, [*_metrics(of_results), *_files(of_results), unlike(run, [*cells.values()])])]


def rules(run: Run, grid: Grid) -> list[str]:
    """Return what the verdicts of a table mean, as plain text."""
    assert grid.table.reference
    difference = "Difference: ours minus published."
    if found := obstacles(run, grid.table):
        return [difference, *(f"Not comparable: {shortened(one.rstrip('.'), LONGEST)}." for one in found)]
    assert grid.published
    found = [difference, MEANING_OF_VERDICTS]
    compared = [entry for row in grid.entries for entry in row if entry.comparison and entry.cells]
    if compared and not all(same_examples(run, grid.table.reference, entry) for entry in compared):
        found.append(OTHER_EXAMPLES)
    tolerance = grid.published.tolerance
    named = tolerance.items() if isinstance(tolerance, dict) else [("", tolerance)] if tolerance else []
    for name, one in named:
        found.append(f"Tolerance{f' of {name}' if name else ''}: {one.within:g} ({one.why.rstrip('.')}).")
    return found if named else [*found, "No tolerance is given, so nothing is equivalent."]


def _content(run: Run, grid: Grid) -> str:
    """Say what a table is of where its headings do not: its only metric."""
    table, labels = grid.table, Labels.of(run, grid.table)
    columns = [column for column in grid.columns if column.value and column.names is not None]
    if len(table.values) != 1 or not table.columns or not columns:
        return ""
    number = columns[0].number
    way = {1: ", higher is better", -1: ", lower is better"}.get(number.better, "")
    return f"{labels.metric(table.values[0], replace(number, better=0))}{way}."


def _seeds(run: Run, grid: Grid) -> str:
    """Say what numbers and what stands beside them are over: seeds, or for a system without them examples."""
    pairs = [pair for row in grid.entries for pair in zip(row, grid.columns, strict=True)]
    done = [entry for entry, column in pairs if column.of == "cells" and entry.status == "done"]
    if not done:
        return ""
    seeds = {entry.seeds for entry in done if not entry.fixed}
    if not seeds:
        return f"Systems as they are, without seeds{'; 95 % interval' if grid.table.spread == 'interval' else ''}."
    over = f"over {span(seeds)} seeds"
    text = {
        "std": f"Mean ± standard deviation {over}." if seeds != {1} else "One seed.",
        "interval": f"Mean {over} and 95 % interval." if seeds != {1} else "One seed, and 95 % interval.",
        "none": f"Mean {over}." if seeds != {1} else "One seed.",
    }[grid.table.spread]
    labels, rows = Labels.of(run, grid.table), zip(grid.rows, grid.entries, strict=True)
    if fixed := [", ".join(labels.row(row)) for row, entries in rows if any(entry.fixed for entry in entries)]:
        text += f" Without seeds, as {'they are' if len(fixed) > 1 else 'it is'}: {', '.join(fixed)}."
    if any(not entry.complete for entry in done):
        text += " †k/n: the mean over only k of n seeds, as the others have no number."
    return text


def _added(grid: Grid) -> str:
    """Say what averages, ranks and differences from a baseline are."""
    kinds, found = {column.of for column in grid.columns}, []
    if "average" in kinds:
        logarithmic = any(column.of == "average" and column.number.scale == "log" for column in grid.columns)
        found.append(f"Average: the {'geometric ' * logarithmic}mean of the columns of a metric.")
    if "ranks" in kinds:
        found.append("Rank: the mean rank in the columns of a metric, 1 for the best.")
    return " ".join(found)


def _significance(run: Run, grid: Grid) -> Iterable[str]:
    """Say what bold numbers and marks mean, and which differences there was little chance to see."""
    from bench_reports.content.significance import method, shown_differences

    labels = Labels.of(run, grid.table)
    if grid.tests:
        yield method(run, grid, labels)
    if detectable := shown_differences(grid, labels):
        yield f"Minimum detectable difference (80 % power): {', '.join(detectable)}."
    for reason in dict.fromkeys(entry.untested for row in grid.entries for entry in row if entry.untested):
        yield f"Numbers without tests: {reason}."


def _errors(run: Run, grid: Grid) -> str:
    """Say how large the errors are that numbers have by sampling in a model."""
    labels, words = Labels.of(run, grid.table), []
    numbers = {column.value: column.number for column in reversed(grid.columns)}
    pairs = [pair for row in grid.entries for pair in zip(grid.columns, row, strict=True)]
    for name, own in by_key((column.value, entry.error) for column, entry in pairs if entry.error).items():
        ends = dict.fromkeys(f"{end:.2g}" for end in (min(own), max(own)))
        words.append(f"{labels.plain_metric(name, numbers[name])} {' to '.join(ends)}")
    return f"Standard errors of estimates by sampling: {', '.join(words)}." if words else ""


def _apart(run: Run, grid: Grid) -> str:
    """Say which numbers have no interval, as their trainings differ in kind, and what those of their seeds are."""
    labels, listed = Labels.of(run, grid.table), []
    for row, entries in zip(grid.rows, grid.entries, strict=True):
        for column, entry in zip(grid.columns, entries, strict=True):
            if entry.apart and (grid.table.spread == "interval" or len(set(entry.apart)) > 1):
                name = ", ".join([*labels.row(row), *((column.names and column.shown) or ())])
                listed.append(f"{name} {', '.join(rounded(one, column.number.digits) for one in entry.apart)}")
    if not listed:
        return ""
    more = f"; and {len(listed) - MOST_APART:,} more" if len(listed) > MOST_APART else ""
    seeds = "" if grid.table.spread == "interval" else f" (by seed: {'; '.join(listed[:MOST_APART])}{more})"
    return f"{NO_INTERVAL}{seeds}."


def _files(filled: Sequence[Grid]) -> Iterable[str]:
    """Say what the files of tables have beside what these show."""
    found = [one.table.id for one in filled if any(entry.interval for row in one.entries for entry in row)]
    if found:
        yield f"95 % intervals and p-values are in {', '.join(f'tables/{name}.csv' for name in found)}."


def _metrics(filled: Iterable[Grid]) -> Iterable[str]:
    """Describe each metric, once for each kind and signature of its numbers."""
    pairs = (
        (column, row[place]) for grid in filled for place, column in enumerate(grid.columns) for row in grid.entries
        if column.of == "cells" and row[place].status == "done"
    )  # fmt: skip
    found = by_key(((one.value, one.number.kind, one.number.signature), (one, entry)) for one, entry in pairs)
    for (value, *_), members in found.items():
        others = len([one for one in found if one[0] == value]) > 1
        where = f" ({', '.join(dict.fromkeys(column.heading for column, _ in members))})" if others else ""
        examples = {count for _, entry in members for count in entry.examples}
        cells = [cell for _, entry in members for cell in entry.cells]
        yield f"{value}{where}: {description(members[0][0].number, examples, cells, value)}."


def _published(grid: Grid) -> str:
    printed = grid.published
    if not printed or not any(entry.published for row in grid.entries for entry in row):
        return ""
    runs = f"{printed.runs} run{'s' if printed.runs > 1 else ''}" if printed.runs else ""
    words = [printed.paper, printed.place, f"corpus {printed.corpus}" if printed.corpus else "", runs]
    note = f" {printed.note[0].upper()}{printed.note[1:].rstrip('.')}." if printed.note else ""
    return f"Small type: as published, {', '.join(filter(None, words))}.{note}"


def _reasons(grid: Grid) -> Iterable[str]:
    yield from (f"[{place}] {shortened(reason, LONGEST)}" for place, reason in enumerate(grid.reasons, 1))
    if any(len(entry.reasons) > 1 for row in grid.entries for entry in row):
        yield "Where seeds differ in why they have no number, the reason of the first is given."
