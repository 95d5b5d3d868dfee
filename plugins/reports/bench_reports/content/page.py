"""What a report says, as plain text, before a format writes it down."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp
from typing import Any

from bench_core.runs.results import Number, Run
from bench_core.runs.selecting import cell_name
from bench_core.suites.cells import join
from bench_core.suites.grids import gathered
from bench_reports.content.choices import choices, place_of
from bench_reports.content.environments import computed_with, unlike
from bench_reports.content.grid import Grid
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import name_on, names_on, ordered
from bench_reports.content.verdicts import obstacles
from bench_reports.document import Example
from bench_reports.figures.figure_data import Picture
from bench_reports.figures.kinds import kind_of

LONGEST = 300  # characters of a reason in a footnote; the list of incomplete cells has all of it
LONGEST_OUTPUT = 300  # characters of an output
MOST_STEPS = 30  # of an output that are shown
MOST_NAMES = 8  # of cells that a figure leaves out for one reason


@dataclass(frozen=True)
class Sample(Example):
    """One example, and what each cell of the first seed made of it."""

    told: Sequence[Mapping[str, Any]] = ()  # all that the run keeps of each output


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
    told = [one.rstrip(".") for table in run.suite.tables if table.reference for one in obstacles(run, table)]
    unlike = [f"Not comparable with the published: {_cut(one, LONGEST)}." for one in dict.fromkeys(told)]
    missing = sum(one.status != "done" for one in run.cells)
    lacking = f"{missing:,} of {len(run.cells):,} cells are incomplete." if missing else ""
    return [note for note in (_limits(run), *unlike, lacking) if note]


def facts(run: Run) -> dict[str, str]:
    """Return what there is to say of a whole run, by name."""
    known = {
        "Source": run.info.get("source") or run.suite.source,
        "Suite": run.info.get("label") or run.suite.suite,
        "Computed with": computed_with(run),
        "Corpus": ", ".join(_corpora(run, names_on(run, "task"))),
        "Vocabulary": ", ".join(_vocabularies(run)),
        "Best possible perplexity": ", ".join(_optima(run)),
        "Notice": " ".join(_notices(run)),
        "Note": " ".join(run.suite.note.split()),
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
        words += [f"{_range(found)} parameters"] if found else []
        words += [] if grid else [f"{what}: {text}" for what, text in known.get(name, {}).get("about", {}).items()]
        yield f"{name} ({', '.join(words)})" if words else name


def _corpora(run: Run, tasks: Iterable[str]) -> list[str]:
    """Return the corpora behind tasks, such as `WikiText-2 (completion)`."""
    known = run.info.get("tasks") or {}
    corpora = {task: known.get(task, {}).get("corpus") for task in tasks}
    return [f"{corpus} ({task})" for task, corpus in corpora.items() if corpus]


def _vocabularies(run: Run) -> list[str]:
    known = run.info.get("tasks") or {}
    return [f"{about['vocabulary']:,} ({task})" for task, about in known.items() if about.get("vocabulary")]


def _optima(run: Run) -> list[str]:
    """Return the perplexity of the process behind each task whose entropy is known, in nats per token."""
    known = run.info.get("tasks") or {}
    return [f"{exp(about['entropy']):.2f} ({task})" for task, about in known.items() if "entropy" in about]


def _notices(run: Run) -> list[str]:
    """Return what readers of the results should know about the data, each once."""
    known = run.info.get("tasks") or {}
    return list(dict.fromkeys(about["notice"] for about in known.values() if about.get("notice")))


def statistics(run: Run) -> list[list[str]]:
    """Return the statistics of the data as a table, headings first; empty if there are none."""
    known = run.info.get("tasks") or {}
    rows = {
        join(task, split): numbers
        for task in names_on(run, "task")
        for split, numbers in (known.get(task, {}).get("statistics") or {}).items()
    }
    names = list(dict.fromkeys(name for numbers in rows.values() for name in numbers))
    table = [[label, *(_statistic(numbers.get(name)) for name in names)] for label, numbers in rows.items()]
    return [["task/split", *names], *table] if names else []


def _statistic(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _worth_showing(run: Run) -> list[Mapping[str, Any]]:
    """Return the outputs of all cells, but not of models and decoders that a choice passed over for others."""
    made = choices(run)
    best = {one.place(one.shown) for one in made}
    unchosen = {one.place(name) for one in made for name in one.grid.combinations} - best
    return [
        sample
        for sample in run.info.get("samples") or ()
        if unchosen.isdisjoint((place_of(sample["cell"], "model"), place_of(sample["cell"], "decoder")))
    ]


def samples(run: Run) -> list[Sample]:
    """Gather the outputs of different cells by their example."""
    examples: dict[str, list[Mapping[str, Any]]] = {}
    for sample in _worth_showing(run):
        name = join(str(sample["cell"].get("task") or ""), str(sample["cell"].get("split") or ""))
        examples.setdefault(f"{name}, example {sample.get('id', '')}", []).append(sample)
    return [
        Sample(name, _given(outputs[0]), [_output(one) for one in outputs], [*_courses(outputs)], outputs)
        for name, outputs in examples.items()
    ]


def _given(sample: Mapping[str, Any]) -> dict[str, str]:
    return {name: _cut(sample[name], LONGEST_OUTPUT) for name in ("prompt", "reference") if sample.get(name)}


def _output(sample: Mapping[str, Any]) -> tuple[str, str]:
    ending = "" if sample.get("finished", True) else " (ended by the limit)"
    return _called(sample), f"{_cut(sample['text'], LONGEST_OUTPUT)}{ending}"


def _courses(outputs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield what outputs were after each of their first tokens, where a run keeps that and more than the end grew."""
    for one in outputs:
        steps = one.get("steps")
        if not isinstance(steps, list) or not steps:
            continue
        texts = [*map(str, steps)]
        if not all(later.startswith(earlier) for earlier, later in pairwise(texts)):
            yield _called(one), [_cut(text, LONGEST_OUTPUT) for text in texts[:MOST_STEPS]]


def _called(sample: Mapping[str, Any]) -> str:
    return cell_name({axis: name for axis, name in sample["cell"].items() if axis not in ("task", "split", "seed")})


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} …"


def footnotes(run: Run, grid: Grid) -> list[str]:
    """Return the footnotes of a table, as plain text."""
    about = [_seeds(grid), *_significance(grid), *_metrics(grid), _limits(run)] if grid.table.of == "results" else []
    notes = [*grid.notes, *about, unlike(run, grid.cells), _corpus(run, grid), _published(grid), *_reasons(grid)]
    return [note for note in notes if note]


def figure_notes(run: Run, picture: Picture) -> list[str]:
    """Return the footnotes of a figure, as plain text."""
    about = [] if picture.empty else [_behind(picture), *picture.notes, *_measured(picture)]
    limits = _limits(run) if picture.figure.kind != "line" else ""
    told = _corpora(run, dict.fromkeys(name_on(one, "task") for one in picture.cells))
    alike = unlike(run, picture.cells)
    notes = [*about, limits, alike, f"Corpus: {', '.join(told)}." if told else "", *_left_out(picture)]
    return [note for note in notes if note]


def _behind(picture: Picture) -> str:
    """Say how many seeds and examples are behind a figure."""
    kind, own = picture.figure.kind, [one for one in picture.series if not one.shared] or picture.series
    seeds = {one.seeds for one in own}
    if brought := kind_of(kind):
        return brought.seeds
    if kind == "heat":
        seeds = {tile.seeds for one in own for tile in one.rows if tile.seeds}
        return "One seed." if seeds == {1} else f"Mean ± standard deviation over {_range(seeds)} seeds."
    if kind in ("line", "scatter"):
        spread = "a band" if kind == "line" else "bars"
        return "One seed." if seeds == {1} else f"Means over {_range(seeds)} seeds, {spread} of a standard deviation."
    pooled = "of one seed" if seeds == {1} else f"pooled over {_range(seeds)} seeds"
    return f"{_range({one.values for one in own})} values, {pooled}."


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
        more = f" and {len(left) - MOST_NAMES:,} more" if len(left) > MOST_NAMES else ""
        yield f"Left out: {'; '.join(left[:MOST_NAMES])}{more}: {_cut(reason.rstrip('.'), LONGEST)}."


def rules(run: Run, grid: Grid) -> list[str]:
    """Return what the verdicts of a table mean, as plain text."""
    assert grid.table.reference
    if found := obstacles(run, grid.table):
        return [
            "Difference: ours minus published.",
            *(f"Not comparable: {_cut(one.rstrip('.'), LONGEST)}." for one in found),
        ]
    share = f"{100 * grid.table.reference.tolerance:g} %"
    return [f"Difference: ours minus published. Reproduced: within two standard errors, or {share} of the published."]


def _seeds(grid: Grid) -> str:
    done = [entry for row in grid.entries for entry in row if entry.status == "done"]
    if not done:
        return ""
    seeds = {entry.seeds for entry in done}
    text = "One seed." if seeds == {1} else f"Mean ± standard deviation over {_range(seeds)} seeds."
    if any(not entry.complete for entry in done):
        text += " †k/n: the mean over only k of n seeds, as the others have no number."
    if any(entry.interval for entry in done):
        text += f" Intervals over the examples of single seeds are in tables/{grid.table.id}.csv."
    return text


def _significance(grid: Grid) -> Iterable[str]:
    """Say what bold numbers mean, and which differences there was little chance to see."""
    from bench_reports.statistics.significance import method, smallest_differences

    if grid.tests:
        yield method(grid)
        digits = {column.value: column.number.digits for column in grid.columns}
        told = [
            f"{value} {' to '.join(dict.fromkeys(rounded(end, digits[value]) for end in ends))}"
            for value, ends in smallest_differences(grid).items()
        ]
        if not told:
            return
        yield f"Minimum detectable difference (80 % power): {', '.join(told)}."


def _metrics(grid: Grid) -> Iterable[str]:
    """Describe each metric, once for each kind and signature of its numbers."""
    columns: dict[tuple[str, str, str], list[int]] = {}
    for place, column in enumerate(grid.columns):
        if any(row[place].status == "done" for row in grid.entries):
            columns.setdefault((column.value, column.number.kind, column.number.signature), []).append(place)
    for value, kind, signature in columns:
        places = columns[value, kind, signature]
        others = len([one for one in columns if one[0] == value]) > 1
        where = f" ({', '.join(grid.columns[place].heading for place in places)})" if others else ""
        examples = {count for row in grid.entries for place in places for count in row[place].examples}
        yield f"{value}{where}: {_description(grid.columns[places[0]].number, examples)}."


def _description(number: Number, examples: Collection[int]) -> str:
    words = [
        number.unit,
        {1: "higher is better", -1: "lower is better"}.get(number.better, ""),
        {"exact": "exact likelihood", "bound": "a bound", "estimate": "an estimate by sampling"}.get(number.kind, ""),
        f"over {_range(examples)} examples",
        f"signature {number.signature}" if number.signature else "",
    ]
    return ", ".join(word for word in words if word)


def _limits(run: Run) -> str:
    limits, profile = run.suite.limits, run.info.get("profile")
    decoded = "all examples" if limits.examples is None else f"{limits.examples:,} examples"
    scored = "all" if limits.scored is None else f"{limits.scored:,}"
    text = f"Limits: {limits.max_tokens:,} tokens an output, {decoded} decoded, {scored} scored."
    changed = ", ".join(run.info.get("changes") or ())
    words = [text, f"Profile {profile}." if profile else "", f"Changed by --set: {changed}." if changed else ""]
    return " ".join(filter(None, words))


def _corpus(run: Run, grid: Grid) -> str:
    listed = [row.label for row in grid.rows] if grid.table.of == "tasks" else []
    told = _corpora(run, dict.fromkeys([*listed, *(name_on(one, "task") for one in grid.cells)]))
    return f"Corpus: {', '.join(told)}." if told else ""


def _published(grid: Grid) -> str:
    printed = grid.published
    if not printed or not any(entry.published for row in grid.entries for entry in row):
        return ""
    runs = f"{printed.runs} run{'s' if printed.runs > 1 else ''}" if printed.runs else ""
    words = [printed.paper, printed.place, f"corpus {printed.corpus}" if printed.corpus else "", runs]
    note = f" {printed.note}" if printed.note else ""
    return f"Small type: as published, {', '.join(word for word in words if word)}.{note}"


def _reasons(grid: Grid) -> Iterable[str]:
    yield from (f"[{place}] {_cut(reason, LONGEST)}" for place, reason in enumerate(grid.reasons, 1))
    if any(len(entry.reasons) > 1 for row in grid.entries for entry in row):
        yield "Where seeds differ in why they have no number, the reason of the first is given."


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
