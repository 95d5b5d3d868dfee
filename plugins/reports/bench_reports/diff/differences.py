"""The difference between two cells of a run: tests, scores by length and examples, as JSON or text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from pathlib import Path
from typing import Any, TypeAlias

from tabulate import tabulate

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.runs.results import CellResult, Run
from bench_core.runs.selecting import cell_name
from bench_core.terminal import visible
from bench_reports.content.contrasts import Contrast, contrasts, one_sided, pairs_of
from bench_reports.content.example_diff import Bucket, Evidence, Example, StoredExamples, marked, tried
from bench_reports.content.numbers import json_data, rounded, signed, summarized
from bench_reports.content.outputs import cut
from bench_reports.content.significance import is_untrained
from bench_reports.statistics.intervals import rounded as rounded_p

LONGEST = 3_000  # characters of a text that is shown
MOST_EXPONENT = 709.0  # of floating-point numbers

Sides: TypeAlias = tuple[Sequence[CellResult], Sequence[CellResult]]  # the seeds of A and of B


@dataclass(frozen=True)
class Difference:
    """All that is result of two cells."""

    sides: Sequence[Mapping[str, Any]]  # the axes of A and of B, all seeds as a list
    contrasts: Sequence[Contrast]
    permutations: Mapping[str, float] = field(default_factory=dict)  # p-value by metric
    wins: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    buckets: Mapping[str, Sequence[Bucket]] = field(default_factory=dict)
    by: str = ""  # the metric by which examples were chosen
    examples: Sequence[Example] = ()
    notes: Sequence[str] = ()
    is_trained: bool = True  # whether trainings are behind any of both cells


def difference(run: Run, sides: Sides, by: str | None = None) -> Difference:
    """Return what a run tells of two cells; raise SuiteError where there is nothing to compare, or not by that."""
    pairs = pairs_of(*sides)
    compared = contrasts(run, pairs)
    _check_metrics(compared, by, sides)
    lone, left_out = one_sided(pairs, compared), sum(len(side) - len(pairs) for side in sides)
    notes = [f"Only one of both cells has {', '.join(lone)}."] if lone else []
    notes += [f"Seeds that only one of both has are left out: {left_out}."] if left_out else []
    seeds = [*zip(*pairs, strict=True)]
    axes = [{**side[0].cell, "seed": [one.cell.get("seed") for one in side]} for side in seeds]
    is_trained = not is_untrained(run, [one for side in sides for one in side])
    return Difference(axes, compared, notes=notes, is_trained=is_trained)


def _check_metrics(compared: Sequence[Contrast], by: str | None, sides: Sides) -> None:
    """Raise SuiteError where there is nothing to compare, or not that by which examples are to be chosen."""
    names = [one.metric for one in compared]
    if not names:
        cells = [one for side in sides for one in side]
        states = [f"{cell_name(one.cell)} is {one.status}{f' ({one.reason})' if one.reason else ''}" for one in cells]
        raise SuiteError(f"no metric has a number in both cells: {'; '.join(states)}.")
    if by is not None and by not in names:
        raise SuiteError(f"no metric that both cells have is called {by!r}. {suggestion(by, names)}")


def looked_into(
    result: Difference, stored: StoredExamples, draws: int, edges: Sequence[int], examples: int, by: str | None
) -> Difference:
    """Add what the examples tell, as far as the store has them; say why where it has not."""
    known: dict[str, Evidence] = {}
    reasons: dict[str, list[str]] = {}
    for one in result.contrasts:
        found = tried(stored, one) if one.paired else None
        if isinstance(found, str):
            reasons.setdefault(found, []).append(one.metric)
        elif found is not None:
            known[one.metric] = found
    notes = [
        f"From the run alone, without its examples: {', '.join(names)} ({why})" for why, names in reasons.items()
    ]
    blocks = {name: f"blocks of {one.block} examples" for name, one in known.items() if one.block > 1}
    notes += _by_reason("examples continue each other, and are exchanged in", blocks)
    chosen = by or _telling(known)
    return replace(
        result,
        permutations={name: one.p_value(draws) for name, one in known.items()},
        wins={name: won for name, one in known.items() if (won := one.wins())},
        buckets={
            name: several
            for name, one in known.items()
            if len(several := one.buckets(edges)) > 1 or (edges and several)
        },
        by=chosen if chosen in known else "",
        examples=known[chosen].apart(stored, examples) if examples and chosen in known else (),
        notes=[*result.notes, *notes],
    )


def _telling(known: Mapping[str, Evidence]) -> str:
    """Return the first metric of outputs that says which way is better; or the first of them, or of all."""
    of_likelihoods = {name: bool(one.contrast.number.kind) for name, one in known.items()}
    return min(known, key=lambda name: (of_likelihoods[name], not known[name].metric.better), default="")


def plain(run: Path, result: Difference) -> Any:
    """Return a difference as JSON data."""
    return json_data(
        {
            "run": str(run),
            "a": result.sides[0],
            "b": result.sides[1],
            "metrics": [_as_json(result, one) for one in result.contrasts],
            "buckets": [_bucket_as_json(name, one) for name, found in result.buckets.items() for one in found],
            "examples": [_example_as_json(result.by, one) for one in result.examples],
            "notes": [*result.notes],
        }
    )


def _as_json(result: Difference, one: Contrast) -> dict[str, Any]:
    won = result.wins.get(one.metric)
    return {
        "metric": one.metric,
        "unit": one.number.unit,
        "better": one.number.better,
        "signature": one.number.signature,
        "seeds": one.ours.n,
        "examples": one.number.examples,
        "a": one.ours.mean,
        "b": one.theirs.mean,
        "difference": one.difference,
        "interval": one.interval,
        "scale": one.number.scale,
        "p": rounded_p(one.p),
        "of_these_trainings": one.estimate.of_these_trainings if one.estimate else None,
        "detectable": _detectable(one),
        "p_sacrebleu": rounded_p(one.koehn),
        "p_permutation": rounded_p(result.permutations.get(one.metric)),
        "wins": dict(zip(("a", "ties", "b"), won, strict=True)) if won else None,
        "note": one.unlike or one.unpaired or one.untested,
    }


def _detectable(one: Contrast) -> float | None:
    """Return the difference that would mostly be found; on a log scale, the ratio."""
    if one.estimate is None:
        return None
    found = one.estimate.detectable()
    return exp(min(found, MOST_EXPONENT)) if one.number.scale == "log" else found


def _least(one: Contrast) -> str:
    least = _detectable(one) or 0.0
    if one.number.scale != "log":
        return rounded(least, one.number.digits)
    return f"{100 * (least - 1):.2g} %" if least < 11 else "over 1,000 %"


def _bucket_as_json(metric: str, one: Bucket) -> dict[str, Any]:
    sizes = {"first": one.first, "last": one.last, "examples": one.examples}
    return {"metric": metric, **sizes, "a": one.ours, "b": one.theirs}


def _example_as_json(by: str, one: Example) -> dict[str, Any]:
    about = {"metric": by, "id": one.id, "seed": one.seed, "a": one.ours, "b": one.theirs}
    if one.outputs is None:
        return about
    ours, theirs = (output.texts[0] for output in one.outputs)
    given = {"prompt": one.outputs[0].prompt, "references": one.outputs[0].references}
    return {**about, **given, "outputs": [ours, theirs], "marked": marked(cut(ours, LONGEST), cut(theirs, LONGEST))}


def _by_reason(what: str, reasons: Mapping[str, str]) -> list[str]:
    """Return one line for each reason, with all the metrics that it holds for."""
    found = {why: [name for name in reasons if reasons[name] == why] for why in reasons.values() if why}
    return [f"{', '.join(names)}: {what} {why}." for why, names in found.items()]


def text(result: Difference, draws: int) -> str:
    """Return a difference for a terminal."""
    lines = [f"{letter}: {visible(_name(side))}" for letter, side in zip("AB", result.sides, strict=True)]
    headings = [
        "metric", "A", "B", "A - B", "95 % interval", "p",
        "as sacrebleu", "p (permutation)", "win/tie/loss",
    ]  # fmt: skip
    rows = [_row(result, one, draws) for one in result.contrasts]
    lines += ["", tabulate(rows, headings, disable_numparse=True), *map(visible, _footnotes(result, draws))]
    if result.buckets:
        headings = ["by length of the reference", "tokens", "examples", "A", "B", "A - B"]
        lines += ["", tabulate(_bucket_rows(result), headings, disable_numparse=True)]
    for one in result.examples:
        lines += ["", *map(visible, _example_text(result, one))]
    return "\n".join(lines)


def _name(side: Mapping[str, Any]) -> str:
    seeds = ", ".join(map(str, side["seed"]))
    axes = {axis: name for axis, name in side.items() if axis != "seed"}
    return f"{cell_name(axes)}, seed{'s' if len(side['seed']) > 1 else ''} {seeds}"


def _row(result: Difference, one: Contrast, draws: int) -> list[str]:
    digits = one.number.digits
    arrow = {1: " ↑", -1: " ↓"}.get(one.number.better, "")
    unit = f", {one.number.unit}" if one.number.unit else ""
    ratio = one.number.scale == "log"
    ends = [rounded(end, 3 if ratio else digits) for end in one.interval or ()]
    chances = [_chance(one.p), _chance(one.koehn, 1000), _chance(result.permutations.get(one.metric), draws)]
    won = "/".join(f"{count:,}" for count in result.wins.get(one.metric, ()))
    return [
        visible(f"{one.metric}{unit}{arrow}"),
        summarized(one.ours, digits),
        summarized(one.theirs, digits),
        "–" if one.difference is None else signed(one.difference, digits),
        f"{'A / B ' if ratio else ''}[{', '.join(ends)}]" if ends else "",
        *chances,
        won,
    ]


def _chance(p: float | None, draws: int = 0) -> str:
    """Return a p-value with three digits after the point, or two that count where it is smaller.

    The least p-value of a test with so many draws is only an upper limit.
    """
    if p is None:
        return ""
    if draws and p <= 1.001 / (draws + 1):
        return f"≤ {1 / (draws + 1):.1g}"
    return f"{p:.3f}" if p >= 0.001 or p == 0 else f"{p:.1e}" if p >= 1e-6 else "< 1e-6"


def _footnotes(result: Difference, draws: int) -> list[str]:
    tested = [one for one in result.contrasts if one.p is not None]
    several = any(one.ours.n > 1 for one in tested)
    notes = [
        *_by_reason("not compared by pairs:", {one.metric: one.unlike or one.unpaired for one in result.contrasts}),
        *_by_reason("not tested:", {one.metric: one.untested for one in result.contrasts}),
    ]
    if tested:
        alone = "the examples"
        if result.is_trained:
            alone += ", for these trainings alone: with one seed, the training variance is unknown"
        of_these = ", of these trainings alone" if result.is_trained else ""
        of_others = any(not one.estimate.of_these_trainings for one in tested if one.estimate)
        over = "examples and seeds" if of_others else alone
        notes.append(f"Interval and p: two-sided, over {over}; p < 0.05 where the interval leaves out no difference.")
        if any(one.koehn is not None for one in tested):
            notes.append(f"As sacrebleu: its paired bootstrap, one-sided{of_these}.")
    if least := [f"{one.metric} {_least(one)}" for one in tested]:
        notes.append(f"Minimum detectable difference (80 % power): {', '.join(least)}.")
    if result.permutations:
        at_once = ", in all seeds at once" if several else ""
        at_once += ": of these trainings, not of others" if several and result.is_trained else ""
        notes.append(f"Paired permutation test: {draws:,} exchanges of examples between A and B{at_once}.")
    if result.wins:
        notes.append(
            "Win/tie/loss: examples for which A is better, neither, B; where no way is better, A's is higher."
        )
    if len(tested) > 1:
        notes.append(f"Each p-value is of one comparison, not corrected for the {len(tested)} that are made here.")
    return [*notes, *result.notes]


def _bucket_rows(result: Difference) -> list[list[str]]:
    digits = {one.metric: one.number.digits for one in result.contrasts}
    return [
        [
            visible(name),
            str(one.first) if one.first == one.last else f"{one.first:,} to {one.last:,}",
            f"{one.examples:,}",
            rounded(one.ours, digits[name]),
            rounded(one.theirs, digits[name]),
            signed(one.ours - one.theirs, digits[name]),
        ]
        for name, found in result.buckets.items()
        for one in found
    ]


def _example_text(result: Difference, one: Example) -> list[str]:
    digits = next(found.number.digits for found in result.contrasts if found.metric == result.by)
    scores = f"{result.by} {rounded(one.ours, digits)} and {rounded(one.theirs, digits)}"
    lines = [f"example {one.id}, seed {one.seed}: {scores}"]
    if one.outputs is None:
        return lines
    first = one.outputs[0]
    ours, theirs = (cut(output.texts[0], LONGEST) for output in one.outputs)
    given = {"prompt": cut(first.prompt, LONGEST), "reference": cut("".join(first.references[:1]), LONGEST)}
    found = {**given, "A": ours, "B": theirs, "A to B": marked(ours, theirs)}
    return [*lines, *(f"  {name}: {words}" for name, words in found.items() if words or name in "AB")]
