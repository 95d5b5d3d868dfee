"""Facts, statistics and footnotes of a report as plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp

from bench_core.runs.results import Number, Run
from bench_core.runs.selecting import cell_name
from bench_core.suites.grids import gathered
from bench_reports.content.environments import abridged, computed_with, unlike
from bench_reports.content.grid import Column, Entry, Grid
from bench_reports.content.labels import Labels
from bench_reports.content.outputs import shortened
from bench_reports.content.sorting import name_on, names_on, ordered
from bench_reports.content.verdicts import obstacles
from bench_reports.figures.figure_data import Picture, kind_of

MEANING_OF_VERDICTS = (
    "Equivalent: the 90 % interval of the difference is within the tolerance; better, worse: its 95 % interval is "
    "beyond it. A standard deviation that is not printed is taken as ours; with one seed and none printed: none."
)
SPREADS = {"line": "bands", "survival": "bands", "bar": "error bars", "scatter": "error bars"}  # by kind of figure
LONGEST = 300  # characters of a reason in a footnote; the list of incomplete cells has all of it


def title(run: Run) -> str:
    """Return the title of a run's report."""
    return str(run.info.get("title") or run.suite.title or run.suite.suite)


def incomplete(run: Run) -> list[str]:
    """Return the cells that failed or did not run, with the reasons."""
    return [
        f"{cell_name(one.cell)} ({one.status}){f': {one.reason}' if one.reason else ''}"
        for one in ordered(run)
        if one.status != "done"
    ]


def comparability(run: Run) -> list[str]:
    """Return the limits of a run, what sets it apart from what was published, and how much of it is missing."""
    differing = [one.rstrip(".") for table in run.suite.tables if table.reference for one in obstacles(run, table)]
    unlike = [f"Not comparable with the published: {shortened(one, LONGEST)}." for one in dict.fromkeys(differing)]
    missing = sum(one.status != "done" for one in run.cells)
    lacking = f"{missing:,} of {len(run.cells):,} cells are incomplete." if missing else ""
    return [*filter(None, [*unlike, lacking])]


def facts(run: Run) -> dict[str, str]:
    """Return what there is to say of a whole run, by name; perplexities of data whose entropy is known, in nats."""
    tasks = run.info.get("tasks") or {}
    notices = dict.fromkeys(about["notice"] for about in tasks.values() if about.get("notice"))
    sizes = {task: f"{about['vocabulary']:,}" for task, about in tasks.items() if about.get("vocabulary")}
    optima = {task: f"{exp(about['entropy']):.2f}" for task, about in tasks.items() if "entropy" in about}
    known = {
        "Source": run.info.get("source") or run.suite.source,
        "Suite": run.info.get("label") or run.suite.suite,
        "Computed with": computed_with(run),
        "Corpus": _corpora(run, names_on(run, "task")),
        "Vocabulary": _by_task(run, sizes),
        "Best possible perplexity": _by_task(run, optima),
        "Notice": " ".join(notices),
        "Note": quoted(run.suite.note),
        "Models": ", ".join(_models(run)),
    }
    return {name: text for name, text in known.items() if text}


def _models(run: Run) -> Iterable[str]:
    """Yield models with the numbers of their parameters, the combinations of a grid as one."""
    known = run.info.get("models") or {}
    for name in gathered(names_on(run, "model"), run.grids):
        grid = run.grids.get(name)
        sizes = [known.get(one, {}).get("parameters") for one in (grid.combinations if grid else [name])]
        found = [size for size in sizes if size is not None]
        words = [f"{len(sizes):,} combinations"] if grid else []
        words += [f"{_range(found)} parameter{'s' if {*found} != {1} else ''}"] if found else []
        words += [] if grid else [f"{what}: {text}" for what, text in known.get(name, {}).get("about", {}).items()]
        label = run.suite.labels.get(name, name)
        yield f"{label} ({', '.join(words)})" if words else label


def _corpora(run: Run, tasks: Iterable[str]) -> str:
    """Return the corpora behind tasks, such as `WikiText-2 (completion)`."""
    known = run.info.get("tasks") or {}
    corpora = {task: known.get(task, {}).get("corpus") for task in tasks}
    return _by_task(run, {task: corpus for task, corpus in corpora.items() if corpus})


def _by_task(run: Run, texts: Mapping[str, str]) -> str:
    """Return what is known of tasks with their labels; without, where a run has one task or a text says the same."""
    labels = {task: run.suite.labels.get(task, task) for task in texts}
    alone = len(names_on(run, "task")) <= 1
    same = {task: alone or labels[task].casefold() == text.casefold() for task, text in texts.items()}
    return ", ".join(text if same[task] else f"{text} ({labels[task]})" for task, text in texts.items())


def quoted(text: str) -> str:
    """Return text on one line, in which names that stand between backticks have quotation marks."""
    return re.sub("`([^`]+)`", r"‘\1’", " ".join(text.split()))


def _corpus_note(run: Run, tasks: Iterable[str]) -> str:
    corpora = _corpora(run, dict.fromkeys(tasks))
    return f"Corpus: {corpora}." if corpora else ""


def statistics(run: Run) -> list[list[str]]:
    """Return the statistics of the data as a table, headings first; empty if there are none."""
    known = run.info.get("tasks") or {}
    rows = {
        f"{run.suite.labels.get(task, task)}, {split}": numbers
        for task in names_on(run, "task")
        for split, numbers in (known.get(task, {}).get("statistics") or {}).items()
    }
    names = list(dict.fromkeys(name for numbers in rows.values() for name in numbers))
    table = [[label, *(_statistic(numbers.get(name)) for name in names)] for label, numbers in rows.items()]
    return [["split", *(name.replace("_", " ") for name in names)], *table] if names else []


def _statistic(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def footnotes(run: Run, grid: Grid) -> list[str]:
    """Return what a reader of a table has to know, as plain text."""
    of_results = [_content(run, grid), _seeds(grid), _joint(run, grid), *_significance(run, grid), _added(grid)]
    about = of_results if grid.table.of == "results" else []
    note = quoted(grid.table.note)
    corpora = _corpus_note(run, [row.label for row in grid.rows]) if grid.table.of == "tasks" else ""
    return [*filter(None, [note, *grid.notes, *about, corpora, _published(grid), *_reasons(grid)])]


def limits(run: Run) -> list[str]:
    """Return the limits that all numbers of a run have in common, and what they were made of."""
    return [*filter(None, [_limits(run), _corpus_note(run, names_on(run, "task"))])]


def details(run: Run, grid: Grid) -> list[str]:
    """Return how the numbers of a table were measured, for those who measure them again."""
    about = [*_files([grid]), *_metrics([grid]), _limits(run)] if grid.table.of == "results" else []
    tasks = [name_on(one, "task") for one in grid.cells]
    return [*filter(None, [*about, unlike(run, grid.cells), _corpus_note(run, tasks)])]


def measurement(run: Run, filled: Sequence[Grid]) -> list[str]:
    """Return how the numbers of all tables were measured."""
    of_results = [grid for grid in filled if grid.table.of == "results"]
    cells = {id(one): one for grid in of_results for one in grid.cells}
    return (
        [*filter(None, [*_metrics(of_results), *_files(of_results), unlike(run, [*cells.values()])])]
        if of_results
        else []
    )


def figure_notes(run: Run, picture: Picture) -> list[str]:
    """Return the footnotes of a figure, as plain text."""
    about = [] if picture.empty else [_behind(picture), *picture.notes, *_measured(picture)]
    limits = _limits(run) if not picture.figure.history else ""
    environments = unlike(run, picture.cells)
    corpus = _corpus_note(run, [name_on(one, "task") for one in picture.cells])
    return [*filter(None, [*about, limits, environments, corpus, *_left_out(picture)])]


def _behind(picture: Picture) -> str:
    """Say how many seeds and examples are behind a figure."""
    kind, own = picture.figure.kind, [one for one in picture.series if not one.shared] or picture.series
    seeds = {one.seeds for one in own}
    if brought := kind_of(kind):
        return brought.seeds
    if kind == "heat":
        seeds = {tile.seeds for one in own for tile in one.rows if tile.seeds}
        return "One seed." if seeds == {1} else f"Mean ± standard deviation over {_range(seeds)} seeds."
    if kind in SPREADS:
        return _variation(picture, seeds)
    pooled = "of one seed" if seeds == {1} else f"pooled over {_range(seeds)} seeds"
    return f"{_range({one.values for one in own})} values, {pooled}."


def _variation(picture: Picture, seeds: Collection[int]) -> str:
    """Say what means are over, and what bands or error bars around them show."""
    shown = SPREADS[picture.figure.kind]
    if max(seeds) < 2:
        return f"One seed: no {shown}, as the variation over seeds is unknown."
    about = {"interval": "95 % intervals of the mean over seeds", "std": "one standard deviation over seeds"}
    what = about.get(picture.figure.spread)
    return f"Means over {_range(seeds)} seeds{f', with {shown} of {what}' if what else ''}."


def _measured(picture: Picture) -> Iterable[str]:
    for metric, number in picture.numbers.items():
        found = [one.numbers[metric] for one in picture.cells if metric in one.numbers]
        if examples := {one.examples for one in found if one.value is not None}:
            yield f"{metric}: {_description(number, examples)}."


def _left_out(picture: Picture) -> Iterable[str]:
    """Name the cells that a figure leaves out, by their reasons."""
    names: dict[str, list[str]] = {}
    for name, reason in picture.missing:
        names.setdefault(reason, []).append(name)
    for reason, left in names.items():
        yield f"Left out: {abridged(left, '; ')}: {shortened(reason.rstrip('.'), LONGEST)}."


def rules(run: Run, grid: Grid) -> list[str]:
    """Return what the verdicts of a table mean, as plain text."""
    assert grid.table.reference
    difference = "Difference: ours minus published."
    if found := obstacles(run, grid.table):
        return [difference, *(f"Not comparable: {shortened(one.rstrip('.'), LONGEST)}." for one in found)]
    assert grid.published
    found = [difference, MEANING_OF_VERDICTS]
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


def _seeds(grid: Grid) -> str:
    done = [entry for entry in _entries(grid, "cells") if entry.status == "done"]
    if not done:
        return ""
    seeds = {entry.seeds for entry in done}
    over = f"over {_range(seeds)} seeds"
    text = {
        "std": f"Mean ± standard deviation {over}." if seeds != {1} else "One seed.",
        "interval": f"Mean {over} and 95 % interval." if seeds != {1} else "One seed, and 95 % interval.",
        "none": f"Mean {over}." if seeds != {1} else "One seed.",
    }[grid.table.spread]
    if any(not entry.complete for entry in done):
        text += " †k/n: the mean over only k of n seeds, as the others have no number."
    return text


def _entries(grid: Grid, of: str) -> list[Entry]:
    return [entry for row in grid.entries for entry, column in zip(row, grid.columns, strict=True) if column.of == of]


def _added(grid: Grid) -> str:
    """Say what averages, ranks and differences from a baseline are."""
    kinds, found = {column.of for column in grid.columns}, []
    if "average" in kinds:
        logarithmic = any(column.of == "average" and column.number.scale == "log" for column in grid.columns)
        found.append(f"Average: the {'geometric ' * logarithmic}mean of the columns of a metric.")
    if "ranks" in kinds:
        found.append("Rank: the mean rank in the columns of a metric, 1 for the best.")
    return " ".join(found)


def _joint(run: Run, grid: Grid) -> str:
    """Name the models whose seeds were trained together, so that the spread of seeds leaves a part of it out."""
    shown = dict.fromkeys(name_on(one, "model") for one in grid.cells)
    joint = [name for name in shown if _is_joint(run, name)]
    if not joint:
        return ""
    return f"Seeds saw the same batches, the variance of which is not in their spread: {', '.join(joint)}."


def _is_joint(run: Run, model: str) -> bool:
    own = (run.suite.models.get(model) or {}).get("training") or {}
    several = sum(one.cell.get("model") == model for one in run.cells) > 1
    return bool(own.get("together", run.suite.training.together)) and several


def _significance(run: Run, grid: Grid) -> Iterable[str]:
    """Say what bold numbers and marks mean, and which differences there was little chance to see."""
    from bench_reports.content.significance import method, shown_differences, untested

    labels = Labels.of(run, grid.table)
    if grid.tests:
        yield method(grid, labels)
    if detectable := shown_differences(grid, labels):
        yield f"Minimum detectable difference (80 % power): {', '.join(detectable)}."
    for reason in untested([entry for row in grid.entries for entry in row]):
        yield f"Numbers without tests: {reason}."


def _files(filled: Sequence[Grid]) -> Iterable[str]:
    """Say what the files of tables have beside what these show."""

    def named(shown: Callable[[Entry], object]) -> str:
        found = [one.table.id for one in filled if any(shown(entry) for row in one.entries for entry in row)]
        return ", ".join(f"tables/{name}.csv" for name in found)

    if files := named(lambda entry: entry.interval):
        yield f"95 % intervals and p-values are in {files}."
    if files := named(lambda entry: entry.error):
        yield f"Estimates have a standard error of their own, the column `error` of {files}."


def _metrics(filled: Iterable[Grid]) -> Iterable[str]:
    """Describe each metric, once for each kind and signature of its numbers."""
    found: dict[tuple[str, str, str], list[tuple[Column, set[int]]]] = {}
    for grid in filled:
        for place, column in enumerate(grid.columns):
            entries = [row[place] for row in grid.entries if row[place].status == "done"]
            if column.of == "cells" and entries:
                counts = {count for entry in entries for count in entry.examples}
                key = column.value, column.number.kind, column.number.signature
                found.setdefault(key, []).append((column, counts))
    for (value, *_), members in found.items():
        others = len([one for one in found if one[0] == value]) > 1
        where = f" ({', '.join(dict.fromkeys(column.heading for column, _ in members))})" if others else ""
        examples = {count for _, counts in members for count in counts}
        yield f"{value}{where}: {_description(members[0][0].number, examples)}."


def _description(number: Number, examples: Collection[int]) -> str:
    words = [
        number.unit,
        {1: "higher is better", -1: "lower is better"}.get(number.better, ""),
        {"exact": "exact likelihood", "bound": "a bound", "estimate": "an estimate by sampling"}.get(number.kind, ""),
        f"over {_range(examples)} examples",
        f"signature {number.signature}" if number.signature else "",
    ]
    return ", ".join(filter(None, words))


def _limits(run: Run) -> str:
    limits, profile = run.suite.limits, run.info.get("profile")
    decoded = "all examples" if limits.examples is None else f"{limits.examples:,} examples"
    scored = "all" if limits.scored is None else f"{limits.scored:,}"
    text = f"Limits: {limits.max_tokens:,} tokens an output, {decoded} decoded, {scored} scored."
    changed = ", ".join(run.info.get("changes") or ())
    words = [text, f"Profile {profile}." if profile else "", f"Changed by --set: {changed}." if changed else ""]
    return " ".join(filter(None, words))


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


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
