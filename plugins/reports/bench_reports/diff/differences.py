"""Two cells of a run, and all that is told of their difference: what the run knows, and what the store adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from bench_core.errors import SuiteError
from bench_core.registry import suggestion
from bench_core.runs.results import CellResult, Run
from bench_core.runs.selecting import cell_name
from bench_reports.content.numbers import json_data
from bench_reports.diff.example_diff import Bucket, Evidence, Example, Shelf, Texts, cut, marked, tried
from bench_reports.statistics.intervals import rounded
from bench_reports.statistics.paired import Contrast, Couple, contrasts, couples_of, one_sided

Sides: TypeAlias = tuple[Sequence[CellResult], Sequence[CellResult]]  # the seeds of A and of B


@dataclass(frozen=True)
class Difference:
    """All that is told of two cells."""

    sides: tuple[Mapping[str, Any], Mapping[str, Any]]  # the axes of A and of B, all seeds as a list
    contrasts: Sequence[Contrast]
    permutations: Mapping[str, float] = field(default_factory=dict)  # p-value by metric
    wins: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    buckets: Mapping[str, Sequence[Bucket]] = field(default_factory=dict)
    by: str = ""  # the metric by which examples were chosen
    examples: Sequence[Example] = ()
    notes: Sequence[str] = ()


def difference(run: Run, sides: Sides, by: str | None = None) -> Difference:
    """Return what a run tells of two cells; raise SuiteError where there is nothing to compare, or not by that."""
    couples = couples_of(*sides)
    compared = contrasts(run, couples)
    _check_metrics(compared, by, sides)
    notes = [*_lone(one_sided(couples, compared)), *_seeds(sides, couples)]
    return Difference(_axes(couples), compared, notes=notes)


def _check_metrics(compared: Sequence[Contrast], by: str | None, sides: Sides) -> None:
    """Raise SuiteError where there is nothing to compare, or not that by which examples are to be chosen."""
    names = [one.metric for one in compared]
    if not names:
        states = "; ".join(
            f"{cell_name(one.cell)} is {one.status}" + (f" ({one.reason})" if one.reason else "")
            for side in sides
            for one in side
        )
        raise SuiteError(f"no metric has a number in both cells: {states}.")
    if by is not None and by not in names:
        raise SuiteError(f"no metric that both cells have is called {by!r}. {suggestion(by, names)}")


def _axes(couples: Sequence[Couple]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    ours, theirs = (
        {**couples[0][side].cell, "seed": [couple[side].cell.get("seed") for couple in couples]} for side in (0, 1)
    )
    return ours, theirs


def _lone(names: Sequence[str]) -> list[str]:
    return [f"Only one of both cells has {', '.join(names)}."] if names else []


def _seeds(sides: Sides, couples: Sequence[Couple]) -> list[str]:
    """Say which seeds are left out, since only one of both cells has them."""
    left = [len(side) - len(couples) for side in sides]
    return [f"Seeds that only one of both has are left out: {sum(left)}."] if any(left) else []


def looked_into(
    told: Difference, shelf: Shelf, draws: int, edges: Sequence[int], examples: int, by: str | None
) -> Difference:
    """Add what the examples tell, as far as the store has them; say why where it has not."""
    known: dict[str, Evidence] = {}
    reasons: dict[str, list[str]] = {}
    for one in told.contrasts:
        found = tried(shelf, one) if one.paired else None
        if isinstance(found, str):
            reasons.setdefault(found, []).append(one.metric)
        elif found is not None:
            known[one.metric] = found
    notes = [
        f"From the run alone, without its examples: {', '.join(names)} ({why})" for why, names in reasons.items()
    ]
    blocks = {name: f"blocks of {one.block} examples" for name, one in known.items() if one.block > 1}
    notes += by_reason("examples continue each other, and are exchanged in", blocks)
    chosen = by or _telling(known)
    return replace(
        told,
        permutations={name: one.p_value(draws) for name, one in known.items()},
        wins={name: won for name, one in known.items() if (won := one.wins())},
        buckets={
            name: several
            for name, one in known.items()
            if len(several := one.buckets(edges)) > 1 or (edges and several)
        },
        by=chosen if chosen in known else "",
        examples=known[chosen].apart(Texts(shelf), examples) if examples and chosen in known else (),
        notes=[*told.notes, *notes],
    )


def _telling(known: Mapping[str, Evidence]) -> str:
    """Return the first metric of outputs that says which way is better; or the first of them, or of all."""
    ranked = sorted(known, key=lambda name: (_of_likelihood(known[name]), not known[name].metric.better))
    return ranked[0] if ranked else ""


def _of_likelihood(one: Evidence) -> bool:
    return bool(one.contrast.number.kind)


def plain(run: Path, told: Difference) -> Any:
    """Return a difference as JSON data."""
    return json_data(
        {
            "run": str(run),
            "a": told.sides[0],
            "b": told.sides[1],
            "metrics": [_as_json(told, one) for one in told.contrasts],
            "buckets": [
                {"metric": name, **_lettered(vars(bucket))}
                for name, found in told.buckets.items()
                for bucket in found
            ],
            "examples": [_example_as_json(told.by, one) for one in told.examples],
            "notes": [*told.notes],
        }
    )


def _as_json(told: Difference, one: Contrast) -> dict[str, Any]:
    won = told.wins.get(one.metric)
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
        "p_bootstrap": rounded(one.p),
        "p_sacrebleu": rounded(one.koehn),
        "p_permutation": rounded(told.permutations.get(one.metric)),
        "wins": dict(zip(("a", "ties", "b"), won, strict=True)) if won else None,
        "note": _why(one),
    }


def _lettered(values: Mapping[str, Any]) -> dict[str, Any]:
    names = {"ours": "a", "theirs": "b"}
    return {names.get(name, name): value for name, value in values.items()}


def _example_as_json(by: str, one: Example) -> dict[str, Any]:
    about = {"metric": by, "id": one.id, "seed": one.seed, "a": one.ours, "b": one.theirs}
    if one.outputs is None:
        return about
    ours, theirs = (output.texts[0] for output in one.outputs)
    given = {"prompt": one.outputs[0].prompt, "references": one.outputs[0].references}
    return {**about, **given, "outputs": [ours, theirs], "marked": marked(cut(ours), cut(theirs))}


def _why(one: Contrast) -> str:
    return one.unlike or one.unpaired or one.untested


def by_reason(what: str, reasons: Mapping[str, str]) -> list[str]:
    """Return one line for each reason, with all the metrics that it holds for."""
    found = {why: [name for name in reasons if reasons[name] == why] for why in reasons.values() if why}
    return [f"{', '.join(names)}: {what} {why}." for why, names in found.items()]
