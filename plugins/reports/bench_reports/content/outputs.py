"""The outputs of a run as a page keeps them, to be set side by side: visible text, cut, and no more than that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench_core.terminal import visible
from bench_reports.content.numbers import rounded
from bench_reports.content.page import Sample

MOST, FEWEST, ALL = 3_000, 300, 3_000_000  # characters of one output, of one among many, and of all together
KNOWN = {"cell", "id", "prompt", "text", "reference", "finished", "tokens", "log_prob", "values", "words", "order"}


def side_by_side(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return examples, the names of cells, and what each of those made of which example, as JSON data."""
    names = dict.fromkeys(name for sample in samples for name, _ in sample.outputs)
    cells = {name: place for place, name in enumerate(names)}
    longest = max(FEWEST, min(MOST, ALL // max(1, sum(len(sample.outputs) for sample in samples))))
    examples = [
        {
            "name": visible(sample.name),
            "given": {name: _cut(sample.told[0][name], longest) for name in sample.given},
            "outputs": [
                {"cell": cells[name], **_output(told, longest)}
                for (name, _), told in zip(sample.outputs, sample.told, strict=True)
            ],
        }
        for sample in samples
    ]
    return {"cells": [visible(name) for name in cells], "examples": examples}


def _output(told: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return one output: its text, how it ended, and what else is known of it."""
    tokens, log_prob = told.get("tokens"), told.get("log_prob")
    facts = [
        "ended by itself" if told.get("finished", True) else "cut by the limit",
        f"{tokens:,} token{'' if tokens == 1 else 's'}" if isinstance(tokens, int) else "",
        f"log-probability {rounded(log_prob, 2)} nats" if isinstance(log_prob, int | float) else "",
    ]
    values = told.get("values")
    more = {**(values if isinstance(values, Mapping) else {}), **{k: v for k, v in told.items() if k not in KNOWN}}
    details = {visible(str(name)): _spelled(value, longest) for name, value in more.items() if value is not None}
    found = {"text": _cut(told["text"], longest), "facts": [fact for fact in facts if fact]}
    return {**found, **({"details": details} if details else {})}


def _spelled(value: Any, longest: int) -> str | list[str]:
    """Return what a model reports of an output: a word, or a list of them such as the order of insertions."""
    if isinstance(value, Mapping):
        return _cut(", ".join(f"{name} {_word(item)}" for name, item in value.items()), longest)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_cut(_word(item), FEWEST) for item in list(value)[:longest]]
    return _cut(_word(value), longest)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _cut(text: str, longest: int) -> str:
    """Return text that can be seen, with a note of what was cut off."""
    if len(text) <= longest:
        return visible(text)
    return f"{visible(text[:longest])} … [{longest:,} of {len(text):,} characters]"
