"""Sample outputs of a run by example: as text, and as JSON for the side-by-side view of the HTML report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bench_core.runs.quoting import why_not_quoted
from bench_core.runs.results import Run
from bench_core.runs.selecting import cell_name
from bench_core.suites.cells import join
from bench_core.terminal import visible
from bench_reports.content.choices import choices, place_of
from bench_reports.content.conditions import quoted
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import by_key
from bench_reports.document import Example

LONGEST = 300  # characters of an output where all stand one below the other
MOST_STEPS = 30  # of such an output
FEW = 3  # examples of a task and split outside report.html, which has all of them side by side
EXAMPLE = ", example "  # between the names of a task and split, and an id
MOST, FEWEST, ALL = 3_000, 300, 3_000_000  # characters of one output, of one among many, and of all together
KNOWN = {"cell", "id", "prompt", "text", "reference", "finished", "tokens", "log_prob", "values", "words", "order"}

REMEDY = (
    "If you may show them, add `quote: true` to the suite, or list the tasks there, and run it again: nothing is "
    "computed again."
)


@dataclass(frozen=True)
class Sample(Example):
    """One example, and what each cell of the first seed made of it."""

    records: Sequence[Mapping[str, Any]] = ()  # all that the run keeps of each output


def _shown_samples(run: Run) -> list[Mapping[str, Any]]:
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
    found = []
    for name, outputs in by_key((_example_of(one), one) for one in _shown_samples(run)).items():
        first = outputs[0]
        given = {key: shortened(first[key], LONGEST) for key in ("prompt", "reference") if first.get(key)}
        found.append(Sample(name, given, [*map(_text_of, outputs)], [*_courses(outputs)], outputs))
    return found


def _example_of(sample: Mapping[str, Any]) -> str:
    place = join(*(str(sample["cell"].get(axis) or "") for axis in ("task", "split")))
    return f"{place}{EXAMPLE}{sample.get('id', '')}"


def few(run: Run, shown: Sequence[Sample]) -> Sequence[Sample]:
    """Return at most three examples of each task and split if the suite asks for more samples.

    Examples that some cells finished and others did not come first.
    """
    if run.suite.samples <= FEW:
        return shown
    telling = sorted(shown, key=lambda one: len({record.get("finished", True) for record in one.records}) < 2)
    places = by_key((sample.name.rpartition(EXAMPLE)[0], sample.name) for sample in telling)
    kept = {name for names in places.values() for name in names[:FEW]}
    return [sample for sample in shown if sample.name in kept]


def withheld_note(run: Run, shown: Sequence[Sample]) -> list[str]:
    """Return why prompts and references are missing beside the outputs of some tasks; nothing where all are shown."""
    tasks = (str(record["cell"].get("task") or "") for sample in shown for record in sample.records)
    return [text] if (text := quoted(why_withheld(run, tasks))) else []


def why_withheld(run: Run, tasks: Iterable[str]) -> str:
    """Return why prompts and references of some tasks are not shown, and what changes that; empty if all are."""
    known, names = run.info.get("tasks") or {}, dict.fromkeys(tasks)
    reasons = [(why_not_quoted(task, known.get(task) or {}, run.suite.quote), task) for task in names]
    groups = by_key(pair for pair in reasons if pair[0])
    sentences = [f"Prompts and references of {', '.join(some)} are not shown: {why}." for why, some in groups.items()]
    return " ".join([*sentences, *([REMEDY] if groups and run.suite.quote is not False else [])])


def _text_of(sample: Mapping[str, Any]) -> tuple[str, str]:
    ending = "" if sample.get("finished", True) else " (ended by the limit)"
    return _called(sample), f"{shortened(sample['text'], LONGEST)}{ending}"


def _courses(outputs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield what outputs were after each of their first tokens, where a run keeps that and more than the end grew."""
    for one in outputs:
        steps = one.get("steps")
        if not isinstance(steps, list) or not steps:
            continue
        texts = [*map(str, steps)]
        if not all(later.startswith(earlier) for earlier, later in pairwise(texts)):
            yield _called(one), [shortened(text, LONGEST) for text in texts[:MOST_STEPS]]


def _called(sample: Mapping[str, Any]) -> str:
    return cell_name({axis: name for axis, name in sample["cell"].items() if axis not in ("task", "split", "seed")})


def shortened(text: str, length: int) -> str:
    """Return a text, or its beginning where it is longer."""
    return text if len(text) <= length else f"{text[:length]} …"


def cut(text: str, longest: int) -> str:
    """Return a text, or its beginning with a note of its length."""
    return text if len(text) <= longest else f"{text[:longest]} … [{longest:,} of {len(text):,} characters]"


def side_by_side(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return examples, the names of cells, and what each of those made of which example, as JSON data."""
    names = dict.fromkeys(name for sample in samples for name, _ in sample.outputs)
    cells = {name: place for place, name in enumerate(names)}
    longest = max(FEWEST, min(MOST, ALL // max(1, sum(len(sample.outputs) for sample in samples))))
    examples = [
        {
            "name": visible(sample.name),
            "given": {name: visible(cut(sample.records[0][name], longest)) for name in sample.given},
            "outputs": [
                {"cell": cells[name], **_output(record, longest)}
                for (name, _), record in zip(sample.outputs, sample.records, strict=True)
            ],
        }
        for sample in samples
    ]
    return {"cells": [visible(name) for name in cells], "examples": examples}


def _output(record: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return one output: its text, how it ended, and what else is known of it."""
    tokens, log_prob = record.get("tokens"), record.get("log_prob")
    facts = [
        "ended by itself" if record.get("finished", True) else "cut by the limit",
        f"{tokens:,} token{'' if tokens == 1 else 's'}" if isinstance(tokens, int) else "",
        f"log-probability {rounded(log_prob, 2)} nats" if isinstance(log_prob, int | float) else "",
    ]
    values = record.get("values")
    more = {**(values if isinstance(values, Mapping) else {}), **{k: v for k, v in record.items() if k not in KNOWN}}
    details = {visible(str(name)): _spelled(value, longest) for name, value in more.items() if value is not None}
    found = {"text": visible(cut(record["text"], longest)), "facts": [fact for fact in facts if fact]}
    return {**found, **({"details": details} if details else {})}


def _spelled(value: Any, longest: int) -> str | list[str]:
    """Return what a model reports of an output: a word, or a list of them such as the order of insertions."""
    if isinstance(value, Mapping):
        return visible(cut(", ".join(f"{name} {_word(item)}" for name, item in value.items()), longest))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [visible(cut(_word(item), FEWEST)) for item in list(value)[:longest]]
    return visible(cut(_word(value), longest))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
