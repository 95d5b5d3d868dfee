"""Evaluates the claims of a suite on the results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from bench_core.runs.results import CellResult, Number, Run
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join
from bench_core.suites.expressions import Query, Term, read
from bench_core.suites.schema import Claim
from bench_core.terminal import counted
from bench_reports.content.numbers import summarized
from bench_reports.content.sorting import name_on, seed_of
from bench_reports.content.tables import applicable, why_missing
from bench_reports.statistics.intervals import Summary, summary

ENOUGH, FEW = 0.95, 0.05  # of the draws: a claim holds that is true in no less, and fails that is in less

MEANING = (
    "A claim holds if it is true of the means over seeds and of at least 95 % of 1,000 draws, of seeds and of the "
    "examples behind each, and fails if it is true neither of the means nor of as many as 5 % of the draws; else it "
    "is unclear. What another training would give, one seed cannot tell."
)

Verdict: TypeAlias = Literal["holds", "holds (1 seed)", "unclear", "fails", "fails (1 seed)", "not run"]


@dataclass(frozen=True)
class Found:
    """What a run has for one value of a claim."""

    query: Query
    numbers: Mapping[int, Number] = field(default_factory=dict)  # by seed, where there is one
    keys: Mapping[int, str] = field(default_factory=dict)  # of their measurements, by seed
    status: Literal["done", "failed", "not run"] = "not run"
    reason: str = ""  # why seeds have no number

    def over(self, seeds: Iterable[int]) -> list[float]:
        """Return the numbers of some seeds."""
        return [value for seed in seeds if (value := self.numbers[seed].value) is not None]

    @property
    def summary(self) -> Summary:
        """Return mean and spread over all seeds that have a number."""
        return summary(self.over(self.numbers))

    def __str__(self) -> str:
        name = join(*(name for _, name in self.query.axes))
        number = next(iter(self.numbers.values()), Number())
        sign = {"bound": "≥" if number.better > 0 else "≤", "estimate": "≈"}.get(number.kind, "")
        value = summarized(self.summary, number.digits) if self.numbers else self.status
        return " ".join(word for word in (name, sign, value) if word)


@dataclass(frozen=True)
class Judgement:
    """What became of a claim, and by what values."""

    claim: Claim
    verdict: Verdict
    values: Sequence[Found] = ()
    share: float | None = None  # of the draws in which it is true
    remarks: Sequence[str] = ()  # what a reader of the verdict must know

    @property
    def why(self) -> str:
        """Return the values, by metric, and the remarks as one line."""
        metrics = dict.fromkeys(one.query.metric for one in self.values)
        by_metric = {name: ", ".join(str(one) for one in self.values if one.query.metric == name) for name in metrics}
        return "; ".join([*(f"{name} {values}" for name, values in by_metric.items()), *self.remarks])

    def record(self) -> dict[str, Any]:
        """Return the judgement as plain data."""
        values = [
            {"metric": one.query.metric, "axes": dict(one.query.axes), "status": one.status, "reason": one.reason}
            | (vars(one.summary) if one.numbers else {"mean": None, "std": None, "n": 0})
            for one in self.values
        ]
        claim = {"id": self.claim.id, "text": self.claim.text, "assert": self.claim.expression}
        return {**claim, "verdict": self.verdict, "share": self.share, "remarks": [*self.remarks], "values": values}


def judge(run: Run) -> list[Judgement]:
    """Return what became of each claim of a run's suite."""
    return [_judged(run, claim) for claim in run.suite.claims]


def _judged(run: Run, claim: Claim) -> Judgement:
    expression = read(claim.expression)
    if expression.term is None:
        return Judgement(claim, "not run", remarks=expression.problems)
    values = [found(run, query) for query in expression.queries]
    missing = [f"{one.query} is missing: {one.reason or one.status}" for one in values if not one.numbers]
    if missing:
        return Judgement(claim, "not run", values, remarks=missing)
    seeds = sorted(set.intersection(*(set(one.numbers) for one in values)))
    if not seeds:
        return Judgement(claim, "not run", values, remarks=["no seed has all of the values"])
    return _weighed(run, claim, expression.term, values, seeds)


def _weighed(run: Run, claim: Claim, term: Term, values: Sequence[Found], seeds: Sequence[int]) -> Judgement:
    from bench_reports.statistics.claim_bootstrap import resampled_of

    own = {one.query: [run.draws.get(one.keys.get(seed, "")) for seed in seeds] for one in values}
    resampled = resampled_of({one.query: one.over(seeds) for one in values}, own)
    holds, share = resampled.holds(term)
    undefined = [f"{text} is no number" for text in dict.fromkeys(resampled.undefined)]
    mixed = [f"the seeds of {one.query} have numbers of different kinds" for one in values if len(_variants(one)) > 1]
    remarks = [*undefined, *mixed, *_reservations(values, seeds)]
    if undefined or mixed:
        return Judgement(claim, "unclear", values, share, remarks)
    if share is None or (share >= ENOUGH if holds else share < FEW):
        sure: Verdict = "holds" if holds else "fails"
        alone: Verdict = "holds (1 seed)" if holds else "fails (1 seed)"
        return Judgement(claim, sure if len(seeds) > 1 else alone, values, share, remarks)
    means = "true" if holds else "not true"
    over = "seeds and examples" if resampled.examples else "seeds"
    remark = f"{means} of the means, true in {100 * share:.1f} % of the draws over {over}"
    return Judgement(claim, "unclear", values, share, [remark, *remarks])


def _reservations(values: Sequence[Found], seeds: Sequence[int]) -> list[str]:
    """Say where seeds are missing, and where values of one metric were not measured alike."""
    found = []
    lacking = [f"{one.query}: {one.reason}" for one in values if one.reason]
    if lacking or any(len(one.numbers) > len(seeds) for one in values):
        why = f" ({'; '.join(lacking)})" if lacking else ""
        found.append(f"judged by {counted(len(seeds), 'seed')}, as values of others are missing{why}")
    variants: dict[str, set[tuple[str, str]]] = {}
    for one in values:
        variants.setdefault(one.query.metric, set()).update(_variants(one))
    unlike = [metric for metric, known in variants.items() if len(known) > 1]
    return [*found, *(f"the values of {metric!r} differ in kind or signature" for metric in unlike)]


def _variants(one: Found) -> set[tuple[str, str]]:
    return {(number.kind, number.signature) for number in one.numbers.values()}


def found(run: Run, query: Query) -> Found:
    """Return the numbers by seed that answer a query."""
    cells = [one for one in run.cells if all(name_on(one, axis) == name for axis, name in query.axes)]
    cells = applicable(run, cells, query.metric) if query.metric in run.suite.metrics else []
    if not cells:
        profile = run.info.get("profile")
        return Found(query, reason="the run has no such cell" + (f" (profile {profile})" if profile else ""))
    if several := _several(cells, query):
        return Found(query, reason=several)
    numbers: dict[int, Number] = {}
    keys: dict[int, str] = {}
    for one in sorted(cells, key=seed_of):
        number = one.numbers.get(query.metric)
        if number is not None and number.value is not None:
            numbers[seed_of(one)] = number
            keys[seed_of(one)] = one.artifacts.get(f"measure/{query.metric}", "")
    lacking = [one for one in cells if seed_of(one) not in numbers]
    words = [(one.status if one.status != "done" else "", why_missing(one, query.metric)) for one in lacking]
    reasons = [", ".join(filter(None, pair)) or "not measured" for pair in words]
    missing: Literal["failed", "not run"] = "failed" if any(one.status == "failed" for one in lacking) else "not run"
    return Found(query, numbers, keys, "done" if numbers else missing, "; ".join(dict.fromkeys(reasons)))


def _several(cells: Sequence[CellResult], query: Query) -> str:
    """Say which cells a query cannot tell apart; those that share one measurement are one."""
    for seed in {seed_of(one) for one in cells}:
        same = [one for one in cells if seed_of(one) == seed]
        measured = {one.artifacts.get(f"measure/{query.metric}") for one in same if one.artifacts}
        if len(same) > 1 and measured and (len(measured) > 1 or None in measured):
            names = {axis: list(dict.fromkeys(name_on(one, axis) for one in same)) for axis in AXES[:-1]}
            which = [f"{axis} {' or '.join(known)}" for axis, known in names.items() if len(known) > 1]
            return f"it may mean several cells: {', '.join(which)}"
    return ""
