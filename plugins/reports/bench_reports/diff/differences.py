"""The difference between two cells of a run: tests, scores by length, and examples, as JSON or text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from pathlib import Path
from typing import Any, TypeAlias

from tabulate import tabulate

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.runs.results import CellResult, Run, as_json
from bench_core.runs.selecting import cell_name
from bench_core.terminal import visible
from bench_reports.content.contrasts import Contrast, contrasts, one_sided, pairs_of
from bench_reports.content.example_diff import (
    Bucket,
    ExampleEvidence,
    ScoredExample,
    StoredEvidence,
    mark_changes,
    read_evidence,
)
from bench_reports.content.numbers import rounded, signed, summary_text
from bench_reports.content.outputs import cut
from bench_reports.content.significance import is_untrained
from bench_reports.content.sorting import by_key
from bench_reports.statistics.intervals import rounded as rounded_p

MAX_CHARACTERS = 3_000  # characters of a text
MAX_EXPONENT = 709.0  # `exp` overflows above it

Sides: TypeAlias = tuple[Sequence[CellResult], Sequence[CellResult]]  # the seeds of A and of B


@dataclass(frozen=True)
class CellDifference:
    """The result of a comparison of two cells."""

    sides: Sequence[Mapping[str, Any]]  # axes of A and of B, with a list of seeds
    contrasts: Sequence[Contrast]
    permutations: Mapping[str, float] = field(default_factory=dict)  # p-values by metric
    wins: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    buckets: Mapping[str, Sequence[Bucket]] = field(default_factory=dict)
    by: str = ""  # the metric that ranks the examples
    examples: Sequence[ScoredExample] = ()
    notes: Sequence[str] = ()
    is_trained: bool = True  # whether any of the cells has a trained model


def difference(run: Run, sides: Sides, by: str | None = None) -> CellDifference:
    """Compare two cells by the numbers of a run; raise SuiteError unless they share metrics, and `by` if given."""
    pairs = pairs_of(*sides)
    compared = contrasts(run, pairs)
    _check_metrics(compared, by, sides)
    lone, left_out = one_sided(pairs, compared), sum(len(side) - len(pairs) for side in sides)
    notes = [f"Only one of the cells has {', '.join(lone)}."] if lone else []
    notes += [f"Seeds that only one of the cells has are left out: {left_out}."] if left_out else []
    seeds = [*zip(*pairs, strict=True)]
    axes = [{**side[0].cell, "seed": [cell.cell.get("seed") for cell in side]} for side in seeds]
    is_trained = not is_untrained(run, [cell for side in sides for cell in side])
    return CellDifference(axes, compared, notes=notes, is_trained=is_trained)


def _check_metrics(compared: Sequence[Contrast], by: str | None, sides: Sides) -> None:
    """Raise SuiteError unless the cells share at least one metric, and the metric `by` if it is given."""
    names = [contrast.metric for contrast in compared]
    if not names:
        cells = [cell for side in sides for cell in side]
        states = [
            f"{cell_name(cell.cell)} is {cell.status}{f' ({cell.reason})' if cell.reason else ''}" for cell in cells
        ]
        raise SuiteError(f"no metric has a number in both cells: {'; '.join(states)}.")
    if by is not None and by not in names:
        raise SuiteError(f"the cells have no common metric {by!r}. {suggestion(by, names)}")


def with_examples(
    result: CellDifference, stored: StoredEvidence, draws: int, edges: Sequence[int], examples: int, by: str | None
) -> CellDifference:
    """Add comparisons by example, or notes on the metrics whose examples are not in the store."""
    evidence: dict[str, ExampleEvidence] = {}
    reasons: dict[str, list[str]] = {}
    for contrast in result.contrasts:
        examples_of = read_evidence(stored, contrast) if contrast.is_paired else None
        if isinstance(examples_of, str):
            reasons.setdefault(examples_of, []).append(contrast.metric)
        elif examples_of is not None:
            evidence[contrast.metric] = examples_of
    notes = [f"Compared without stored examples: {', '.join(names)} ({why})" for why, names in reasons.items()]
    blocks = {name: f"blocks of {each.block} examples" for name, each in evidence.items() if each.block > 1}
    notes += _by_reason("examples continue one another and are permuted in", blocks)
    chosen = by or _default_metric(evidence)
    return replace(
        result,
        permutations={name: each.p_value(draws) for name, each in evidence.items()},
        wins={name: won for name, each in evidence.items() if (won := each.wins())},
        buckets={
            name: several
            for name, each in evidence.items()
            if len(several := each.buckets(edges)) > 1 or (edges and several)
        },
        by=chosen if chosen in evidence else "",
        examples=evidence[chosen].apart(stored, examples) if examples and chosen in evidence else (),
        notes=[*result.notes, *notes],
    )


def _default_metric(evidence: Mapping[str, ExampleEvidence]) -> str:
    """Return the first output metric with a direction; without one, the first output metric, or else the first."""
    of_likelihoods = {name: bool(each.contrast.number.kind) for name, each in evidence.items()}
    return min(evidence, key=lambda name: (of_likelihoods[name], not evidence[name].metric.better), default="")


def plain(run: Path, result: CellDifference) -> Any:
    """Return a difference as JSON data."""
    return as_json(
        {
            "run": str(run),
            "a": result.sides[0],
            "b": result.sides[1],
            "metrics": [_as_json(result, contrast) for contrast in result.contrasts],
            "buckets": [
                _bucket_as_json(name, bucket) for name, buckets in result.buckets.items() for bucket in buckets
            ],
            "examples": [_example_as_json(result.by, example) for example in result.examples],
            "notes": [*result.notes],
        }
    )


def _as_json(result: CellDifference, contrast: Contrast) -> dict[str, Any]:
    won = result.wins.get(contrast.metric)
    return {
        "metric": contrast.metric, "unit": contrast.number.unit, "better": contrast.number.better,
        "signature": contrast.number.signature, "seeds": contrast.ours.n, "examples": contrast.number.examples,
        "a": contrast.ours.mean, "b": contrast.theirs.mean, "difference": contrast.difference,
        "interval": contrast.interval, "scale": contrast.number.scale, "p": rounded_p(contrast.p),
        "of_these_trainings": contrast.estimate.of_these_trainings if contrast.estimate else None,
        "detectable": _detectable(contrast), "p_sacrebleu": rounded_p(contrast.koehn),
        "p_permutation": rounded_p(result.permutations.get(contrast.metric)),
        "wins": dict(zip(("a", "ties", "b"), won, strict=True)) if won else None,
        "note": contrast.unlike or contrast.unpaired or contrast.untested,
    }  # fmt: skip


def _detectable(contrast: Contrast) -> float | None:
    """Return the minimum detectable difference, or the ratio on a log scale."""
    if contrast.estimate is None:
        return None
    least = contrast.estimate.detectable()
    return exp(min(least, MAX_EXPONENT)) if contrast.number.scale == "log" else least


def _least(contrast: Contrast) -> str:
    least = _detectable(contrast) or 0.0
    if contrast.number.scale != "log":
        return rounded(least, contrast.number.digits)
    return f"{100 * (least - 1):.2g} %" if least < 11 else "over 1,000 %"


def _bucket_as_json(metric: str, bucket: Bucket) -> dict[str, Any]:
    sizes = {"first": bucket.first, "last": bucket.last, "examples": bucket.examples}
    return {"metric": metric, **sizes, "a": bucket.ours, "b": bucket.theirs}


def _example_as_json(by: str, example: ScoredExample) -> dict[str, Any]:
    about = {"metric": by, "id": example.id, "seed": example.seed, "a": example.ours, "b": example.theirs}
    if example.outputs is None:
        return about
    ours, theirs = (output.texts[0] for output in example.outputs)
    inputs = {"prompt": example.outputs[0].prompt, "references": example.outputs[0].references}
    return {
        **about,
        **inputs,
        "outputs": [ours, theirs],
        "marked": mark_changes(cut(ours, MAX_CHARACTERS), cut(theirs, MAX_CHARACTERS)),
    }


def _by_reason(what: str, reasons: Mapping[str, str]) -> list[str]:
    """Return a line for each reason, with all its metrics."""
    groups = by_key((why, name) for name, why in reasons.items() if why)
    return [f"{', '.join(names)}: {what} {why}." for why, names in groups.items()]


def text(result: CellDifference, draws: int) -> str:
    """Return a difference for a terminal."""
    lines = [f"{letter}: {visible(_name(side))}" for letter, side in zip("AB", result.sides, strict=True)]
    headings = [
        "metric", "A", "B", "A - B", "95 % interval", "p",
        "as sacrebleu", "p (permutation)", "win/tie/loss",
    ]  # fmt: skip
    rows = [_row(result, contrast, draws) for contrast in result.contrasts]
    filled = [[*column] for column in zip(headings, *rows, strict=True) if any(column[1:])]
    table = tabulate([*zip(*filled, strict=True)], "firstrow", disable_numparse=True)
    lines += ["", table, *map(visible, _footnotes(result, draws))]
    if result.buckets:
        headings = ["by reference length", "tokens", "examples", "A", "B", "A - B"]
        lines += ["", tabulate(_bucket_rows(result), headings, disable_numparse=True)]
    for example in result.examples:
        lines += ["", *map(visible, _example_text(result, example))]
    return "\n".join(lines)


def _name(side: Mapping[str, Any]) -> str:
    seeds = ", ".join(map(str, side["seed"]))
    axes = {axis: name for axis, name in side.items() if axis != "seed"}
    return f"{cell_name(axes)}, seed{'s' if len(side['seed']) > 1 else ''} {seeds}"


def _row(result: CellDifference, contrast: Contrast, draws: int) -> list[str]:
    digits = contrast.number.digits
    arrow = {1: " ↑", -1: " ↓"}.get(contrast.number.better, "")
    unit = f", {contrast.number.unit}" if contrast.number.unit else ""
    ratio = contrast.number.scale == "log"
    ends = [rounded(end, 3 if ratio else digits) for end in contrast.interval or ()]
    return [
        visible(f"{contrast.metric}{unit}{arrow}"),
        summary_text(contrast.ours, digits),
        summary_text(contrast.theirs, digits),
        "–" if contrast.difference is None else signed(contrast.difference, digits),
        f"{'A / B ' if ratio else ''}[{', '.join(ends)}]" if ends else "",
        _p_text(contrast.p),
        _p_text(contrast.koehn, 1000),
        _p_text(result.permutations.get(contrast.metric), draws),
        "/".join(f"{count:,}" for count in result.wins.get(contrast.metric, ())),
    ]


def _p_text(p: float | None, draws: int = 0) -> str:
    """Return a p-value with three decimal places, or with two significant digits below 0.001.

    The smallest p-value of a test with `draws` permutations is an upper limit.
    """
    if p is None:
        return ""
    if draws and p <= 1.001 / (draws + 1):
        return f"≤ {1 / (draws + 1):.1g}"
    return f"{p:.3f}" if p >= 0.001 or p == 0 else f"{p:.1e}" if p >= 1e-6 else "< 1e-6"


def _footnotes(result: CellDifference, draws: int) -> list[str]:
    tested = [contrast for contrast in result.contrasts if contrast.p is not None]
    several = any(contrast.ours.n > 1 for contrast in tested)
    notes = [
        *_by_reason("not paired:", {each.metric: each.unlike or each.unpaired for each in result.contrasts}),
        *_by_reason("not tested:", {each.metric: each.untested for each in result.contrasts}),
    ]
    if tested:
        alone = "examples only (single seed: training variance unknown)" if result.is_trained else "examples"
        of_these = ", these training runs only" if result.is_trained else ""
        of_others = any(not contrast.estimate.of_these_trainings for contrast in tested if contrast.estimate)
        over = "examples and seeds" if of_others else alone
        notes.append(f"Interval and p: two-sided, over {over}; p < 0.05 if A = B lies outside the interval.")
        if any(contrast.koehn is not None for contrast in tested):
            notes.append(f"As sacrebleu: sacreBLEU's paired bootstrap, one-sided{of_these}.")
    if least := [f"{contrast.metric} {_least(contrast)}" for contrast in tested]:
        notes.append(f"Minimum detectable difference (80 % power): {', '.join(least)}.")
    if result.permutations:
        at_once = ", jointly for all seeds" if several else ""
        at_once += "; these training runs only" if several and result.is_trained else ""
        notes.append(f"Paired permutation test: {draws:,} permutations of examples between A and B{at_once}.")
    if result.wins:
        notes.append(
            "Win/tie/loss: examples on which A is better, neither is, or B is; without a direction, higher counts as "
            "better."
        )
    if len(tested) > 1:
        notes.append(f"p-values are not corrected for the {len(tested)} comparisons shown here.")
    return [*notes, *result.notes]


def _bucket_rows(result: CellDifference) -> list[list[str]]:
    digits = {contrast.metric: contrast.number.digits for contrast in result.contrasts}
    return [
        [
            visible(name),
            str(bucket.first) if bucket.first == bucket.last else f"{bucket.first:,} to {bucket.last:,}",
            f"{bucket.examples:,}",
            rounded(bucket.ours, digits[name]),
            rounded(bucket.theirs, digits[name]),
            signed(bucket.ours - bucket.theirs, digits[name]),
        ]
        for name, buckets in result.buckets.items()
        for bucket in buckets
    ]


def _example_text(result: CellDifference, example: ScoredExample) -> list[str]:
    digits = next(contrast.number.digits for contrast in result.contrasts if contrast.metric == result.by)
    scores = f"{result.by} {rounded(example.ours, digits)} and {rounded(example.theirs, digits)}"
    lines = [f"example {example.id}, seed {example.seed}: {scores}"]
    if example.outputs is None:
        return lines
    first = example.outputs[0]
    ours, theirs = (cut(output.texts[0], MAX_CHARACTERS) for output in example.outputs)
    inputs = {
        "prompt": cut(first.prompt, MAX_CHARACTERS),
        "reference": cut("".join(first.references[:1]), MAX_CHARACTERS),
    }
    texts = {**inputs, "A": ours, "B": theirs, "A to B": mark_changes(ours, theirs)}
    return [*lines, *(f"  {name}: {words}" for name, words in texts.items() if words or name in "AB")]
