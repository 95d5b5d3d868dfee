"""Sample outputs of a run by example, as text and as JSON for the side-by-side view of the HTML report."""

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
from bench_reports.content.conditions import with_quotation_marks
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import by_key
from bench_reports.document import ExampleBlock

MAX_LISTED_CHARACTERS = 300  # characters of an output in a list
MAX_STEPS = 30  # steps of an output in a list
MAX_EXAMPLES = 3  # examples of a task and split in formats other than report.html, which has all of them side by side
EXAMPLE = ", example "  # separates task and split from the id
MAX_CHARACTERS, MIN_CHARACTERS = 3_000, 300  # characters: upper and lower limit for one output
MAX_TOTAL_CHARACTERS = 3_000_000  # characters of all outputs together
STANDARD_KEYS = {
    "cell", "id", "prompt", "text", "reference", "finished", "tokens", "log_prob", "values", "words", "order",
}  # fmt: skip

REMEDY = (
    "If you may publish them, set `quote: true` in the suite, or `quote` to a list of tasks, and run it again: "
    "nothing is recomputed."
)


@dataclass(frozen=True)
class Sample(ExampleBlock):
    """One example with the outputs of all cells of the first seed."""

    records: Sequence[Mapping[str, Any]] = ()  # stored record of each output


def _selected_samples(run: Run) -> list[Mapping[str, Any]]:
    """Return the outputs of all cells, without the models and decoders that a choice rejected."""
    made = choices(run)
    best = {chosen.place(chosen.representative) for chosen in made}
    rejected = {chosen.place(name) for chosen in made for name in chosen.grid.combinations} - best
    return [
        sample
        for sample in run.info.get("samples") or ()
        if rejected.isdisjoint((place_of(sample["cell"], "model"), place_of(sample["cell"], "decoder")))
    ]


def samples(run: Run) -> list[Sample]:
    """Group the outputs of cells by example."""
    grouped = []
    for name, outputs in by_key((_example_of(sample), sample) for sample in _selected_samples(run)).items():
        first = outputs[0]
        inputs = {
            key: shortened(first[key], MAX_LISTED_CHARACTERS) for key in ("prompt", "reference") if first.get(key)
        }
        grouped.append(Sample(name, inputs, [*map(_text_of, outputs)], [*_courses(outputs)], outputs))
    return grouped


def _example_of(sample: Mapping[str, Any]) -> str:
    place = join(*(str(sample["cell"].get(axis) or "") for axis in ("task", "split")))
    return f"{place}{EXAMPLE}{sample.get('id', '')}"


def few(run: Run, shown: Sequence[Sample]) -> Sequence[Sample]:
    """Return at most three examples of each task and split.

    If the suite has more samples, examples that only some cells finished come first.
    """
    if run.suite.samples <= MAX_EXAMPLES:
        return shown
    ranked = sorted(shown, key=lambda sample: len({record.get("finished", True) for record in sample.records}) < 2)
    places = by_key((sample.name.rpartition(EXAMPLE)[0], sample.name) for sample in ranked)
    selected = {name for names in places.values() for name in names[:MAX_EXAMPLES]}
    return [sample for sample in shown if sample.name in selected]


def withheld_note(run: Run, shown: Sequence[Sample]) -> list[str]:
    """Return why prompts and references of some tasks are not shown; empty if all are shown."""
    tasks = (str(record["cell"].get("task") or "") for sample in shown for record in sample.records)
    return [text] if (text := with_quotation_marks(why_withheld(run, tasks))) else []


def why_withheld(run: Run, tasks: Iterable[str]) -> str:
    """Return why prompts and references of some tasks are not shown, with the remedy; empty if all are shown."""
    about, names = run.info.get("tasks") or {}, dict.fromkeys(tasks)
    reasons = [(why_not_quoted(task, about.get(task) or {}, run.suite.quote), task) for task in names]
    groups = by_key(pair for pair in reasons if pair[0])
    sentences = [f"Prompts and references of {', '.join(some)} are not shown: {why}." for why, some in groups.items()]
    return " ".join([*sentences, *([REMEDY] if groups and run.suite.quote is not False else [])])


def _text_of(sample: Mapping[str, Any]) -> tuple[str, str]:
    ending = "" if sample.get("finished", True) else " (truncated at the limit)"
    return _cell_label(sample), f"{shortened(sample['text'], MAX_LISTED_CHARACTERS)}{ending}"


def _courses(outputs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield outputs after each of their first steps, if the run stores steps that do more than append tokens."""
    for output in outputs:
        steps = output.get("steps")
        if not isinstance(steps, list) or not steps:
            continue
        texts = [*map(str, steps)]
        if not all(later.startswith(earlier) for earlier, later in pairwise(texts)):
            yield _cell_label(output), [shortened(text, MAX_LISTED_CHARACTERS) for text in texts[:MAX_STEPS]]


def _cell_label(sample: Mapping[str, Any]) -> str:
    return cell_name({axis: name for axis, name in sample["cell"].items() if axis not in ("task", "split", "seed")})


def shortened(text: str, length: int) -> str:
    """Return a text truncated to `length` characters."""
    return text if len(text) <= length else f"{text[:length]} …"


def cut(text: str, longest: int) -> str:
    """Return a text truncated to `longest` characters, with a note of its length."""
    return text if len(text) <= longest else f"{text[:longest]} … [{longest:,} of {len(text):,} characters]"


def side_by_side(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return examples with the outputs of cells as JSON data."""
    names = dict.fromkeys(name for sample in samples for name, _ in sample.outputs)
    cells = {name: place for place, name in enumerate(names)}
    longest = max(
        MIN_CHARACTERS,
        min(MAX_CHARACTERS, MAX_TOTAL_CHARACTERS // max(1, sum(len(sample.outputs) for sample in samples))),
    )
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
    """Return the text of an output, how it ended, and the details that a model reported."""
    tokens, log_prob = record.get("tokens"), record.get("log_prob")
    facts = [
        "finished" if record.get("finished", True) else "truncated at the limit",
        f"{tokens:,} token{'' if tokens == 1 else 's'}" if isinstance(tokens, int) else "",
        f"log-probability {rounded(log_prob, 2)} nats" if isinstance(log_prob, int | float) else "",
    ]
    values = record.get("values")
    more = {
        **(values if isinstance(values, Mapping) else {}),
        **{k: v for k, v in record.items() if k not in STANDARD_KEYS},
    }
    details = {visible(str(name)): _value_text(value, longest) for name, value in more.items() if value is not None}
    output = {"text": visible(cut(record["text"], longest)), "facts": [fact for fact in facts if fact]}
    return {**output, **({"details": details} if details else {})}


def _value_text(value: Any, longest: int) -> str | list[str]:
    """Return a detail that a model reported about an output: a word, or a list such as the order of insertions."""
    if isinstance(value, Mapping):
        return visible(cut(", ".join(f"{name} {_word(item)}" for name, item in value.items()), longest))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [visible(cut(_word(item), MIN_CHARACTERS)) for item in list(value)[:longest]]
    return visible(cut(_word(value), longest))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
