"""What a report says, as plain text, before a format writes it down."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from bench_core.names import join
from bench_core.order import cell_name, name_on, names_on, ordered
from bench_core.results import Run
from bench_core.tables import Column, Grid

# What may be told of it: neither host nor time.
ENVIRONMENT = ("python", "torch", "bench", "device", "precision", "threads")
LONGEST = 300  # characters of a reason in a footnote; the list of incomplete cells has all of it
LONGEST_OUTPUT = 300  # characters of an output


@dataclass(frozen=True)
class Sample:
    """One example, and what each cell of the first seed made of it."""

    name: str  # of task, split and example
    given: Mapping[str, str]  # prompt and reference, where they may be told
    outputs: Sequence[tuple[str, str]]  # cell and output


@dataclass(frozen=True)
class Page:
    """All of a report but its tables of results."""

    title: str
    facts: Sequence[str]
    statistics: Sequence[Sequence[str]]  # headings first; empty if there are none
    incomplete: Sequence[str]  # the cells that failed or did not run
    samples: Sequence[Sample]


def page(run: Run) -> Page:
    """Return what a report says about a whole run."""
    incomplete = [
        f"{cell_name(one.cell)} ({one.status}){f': {one.reason}' if one.reason else ''}"
        for one in ordered(run)
        if one.status != "done"
    ]
    samples = _samples(run.info.get("samples") or ())
    title = run.info.get("title") or run.suite.title or run.suite.suite
    return Page(title, _facts(run), _statistics(run), incomplete, samples)


def environment(run: Run) -> dict[str, Any]:
    """Return the versions and the kind of hardware behind a run."""
    found = run.info.get("environment") or {}
    return {key: found[key] for key in ENVIRONMENT if key in found}


def _facts(run: Run) -> list[str]:
    known = run.info.get("models") or {}
    sizes = {name: known.get(name, {}).get("parameters") for name in names_on(run, "model")}
    models = [name if size is None else f"{name} ({size:,} parameters)" for name, size in sizes.items()]
    facts = {
        "Source": run.info.get("source") or run.suite.source,
        "Suite": run.info.get("label") or run.suite.suite,
        "Computed with": ", ".join(f"{key} {value}" for key, value in environment(run).items()),
        "Corpus": ", ".join(_corpora(run, names_on(run, "task"))),
        "Vocabulary": ", ".join(_vocabularies(run)),
        "Best possible perplexity": ", ".join(_optima(run)),
        "Notice": " ".join(_notices(run)),
        "Models": ", ".join(models),
    }
    return [f"{name}: {text}" for name, text in facts.items() if text]


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


def _statistics(run: Run) -> list[list[str]]:
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


def _samples(told: Iterable[Mapping[str, Any]]) -> list[Sample]:
    """Gather the outputs of different cells by their example."""
    examples: dict[str, list[Mapping[str, Any]]] = {}
    for sample in told:
        name = join(str(sample["cell"].get("task") or ""), str(sample["cell"].get("split") or ""))
        examples.setdefault(f"{name}, example {sample.get('id', '')}", []).append(sample)
    return [Sample(name, _given(outputs[0]), [_output(one) for one in outputs]) for name, outputs in examples.items()]


def _given(sample: Mapping[str, Any]) -> dict[str, str]:
    return {name: _cut(sample[name], LONGEST_OUTPUT) for name in ("prompt", "reference") if sample.get(name)}


def _output(sample: Mapping[str, Any]) -> tuple[str, str]:
    cell = {axis: name for axis, name in sample["cell"].items() if axis not in ("task", "split", "seed")}
    ending = "" if sample.get("finished", True) else " (ended by the limit)"
    return cell_name(cell), f"{_cut(sample['text'], LONGEST_OUTPUT)}{ending}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} …"


def footnotes(run: Run, grid: Grid) -> list[str]:
    """Return the footnotes of a table, as plain text."""
    notes = [_seeds(grid), *_metrics(grid), _limits(run), _corpus(run, grid), _published(grid), *_reasons(grid)]
    return [note for note in notes if note]


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
        yield f"{value}{where}: {_description(grid.columns[places[0]], examples)}."


def _description(column: Column, examples: Collection[int]) -> str:
    number = column.number
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
    return f"{text} Profile {profile}." if profile else text


def _corpus(run: Run, grid: Grid) -> str:
    told = _corpora(run, dict.fromkeys(name_on(one, "task") for one in grid.cells))
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
