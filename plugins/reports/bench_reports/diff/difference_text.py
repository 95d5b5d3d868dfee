"""The difference of two cells for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabulate import tabulate

from bench_core.runs.selecting import cell_name
from bench_core.terminal import visible
from bench_reports.content.numbers import rounded, summarized
from bench_reports.diff.differences import Difference, by_reason
from bench_reports.diff.example_diff import Example, cut, marked
from bench_reports.statistics.paired import Contrast


def text(told: Difference, draws: int) -> str:
    """Return a difference for a terminal."""
    lines = [f"{letter}: {visible(_name(side))}" for letter, side in zip("AB", told.sides, strict=True)]
    headings = [
        "metric", "A", "B", "A - B", "95 % interval",
        "p (bootstrap)", "as sacrebleu", "p (permutation)", "win/tie/loss",
    ]  # fmt: skip
    rows = [_row(told, one) for one in told.contrasts]
    lines += ["", tabulate(rows, headings, disable_numparse=True), *map(visible, _footnotes(told, draws))]
    if told.buckets:
        headings = ["by length of the reference", "tokens", "examples", "A", "B", "A - B"]
        lines += ["", tabulate(_bucket_rows(told), headings, disable_numparse=True)]
    for one in told.examples:
        lines += ["", *map(visible, _example(told, one))]
    return "\n".join(lines)


def _name(side: Mapping[str, Any]) -> str:
    seeds = ", ".join(map(str, side["seed"]))
    axes = {axis: name for axis, name in side.items() if axis != "seed"}
    return f"{cell_name(axes)}, seed{'s' if len(side['seed']) > 1 else ''} {seeds}"


def _row(told: Difference, one: Contrast) -> list[str]:
    digits = one.number.digits
    arrow = {1: " ↑", -1: " ↓"}.get(one.number.better, "")
    unit = f", {one.number.unit}" if one.number.unit else ""
    ends = [rounded(end, digits) for end in one.interval or ()]
    chances = [_chance(p) for p in (one.p, one.koehn, told.permutations.get(one.metric))]
    won = "/".join(f"{count:,}" for count in told.wins.get(one.metric, ()))
    return [
        visible(f"{one.metric}{unit}{arrow}"),
        summarized(one.ours, digits),
        summarized(one.theirs, digits),
        _signed(one.difference, digits),
        f"[{', '.join(ends)}]" if ends else "",
        *chances,
        won,
    ]


def _signed(value: float | None, digits: int) -> str:
    if value is None:
        return "–"
    found = rounded(value, digits)
    return f"+{found}" if value > 0 and found.strip("0.") else found


def _chance(p: float | None) -> str:
    """Return a p-value with three digits after the point, or two that count where it is smaller."""
    if p is None:
        return ""
    return f"{p:.3f}" if p >= 0.001 or p == 0 else f"{p:.1e}"


def _footnotes(told: Difference, draws: int) -> list[str]:
    tested = [one for one in told.contrasts if one.p is not None]
    several = any(one.ours.n > 1 for one in tested)
    notes = [
        *by_reason("not compared by pairs:", {one.metric: one.unlike or one.unpaired for one in told.contrasts}),
        *by_reason("no paired bootstrap:", {one.metric: one.untested for one in told.contrasts}),
    ]
    if tested:
        over = (
            "examples nested in seeds" if several else "examples; another training is not in it, as there is one seed"
        )
        notes.append(f"Paired bootstrap over {over}: to either side, and one-sided as sacrebleu counts it.")
    if told.permutations:
        at_once = ", in all seeds at once: of these trainings, not of others" if several else ""
        notes.append(f"Paired permutation test: {draws:,} exchanges of examples between A and B{at_once}.")
    if told.wins:
        notes.append(
            "Win/tie/loss: examples for which A is better, neither, B; where no way is better, A's is higher."
        )
    if len(tested) > 1:
        notes.append(f"Each p-value is of one comparison, not corrected for the {len(tested)} that are made here.")
    return [*notes, *told.notes]


def _bucket_rows(told: Difference) -> list[list[str]]:
    digits = {one.metric: one.number.digits for one in told.contrasts}
    return [
        [
            visible(name),
            str(one.first) if one.first == one.last else f"{one.first:,} to {one.last:,}",
            f"{one.examples:,}",
            rounded(one.ours, digits[name]),
            rounded(one.theirs, digits[name]),
            _signed(one.ours - one.theirs, digits[name]),
        ]
        for name, found in told.buckets.items()
        for one in found
    ]


def _example(told: Difference, one: Example) -> list[str]:
    digits = next(found.number.digits for found in told.contrasts if found.metric == told.by)
    scores = f"{told.by} {rounded(one.ours, digits)} and {rounded(one.theirs, digits)}"
    lines = [f"example {one.id}, seed {one.seed}: {scores}"]
    if one.outputs is None:
        return lines
    first = one.outputs[0]
    ours, theirs = (cut(output.texts[0]) for output in one.outputs)
    given = {"prompt": cut(first.prompt), "reference": cut(first.references[0]) if first.references else ""}
    found = {**given, "A": ours, "B": theirs, "A to B": marked(ours, theirs)}
    return [*lines, *(f"  {name}: {words}" for name, words in found.items() if words or name in "AB")]
