"""Evaluates the claims of a suite on the results of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from bench_core.runs.results import CellResult, Number, Run
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join
from bench_core.suites.expressions import Query, Term, read
from bench_core.suites.schema import Claim
from bench_core.terminal import counted
from bench_reports.content.numbers import summarized
from bench_reports.content.sorting import is_fixed, name_on, seed_of
from bench_reports.content.tables import applicable, why_missing
from bench_reports.statistics.intervals import Summary, rounded, summary

if TYPE_CHECKING:
    from bench_reports.statistics.estimate import Measured

FEWEST = 3  #: seeds of a verdict on other trainings than these
SHOWN = 3  # comparisons in a remark

MEANING = (
    "Every comparison of a claim is a test over examples and seeds. A claim holds if its p-value is at most 5 %, "
    "fails if that of its contrary is, and is unclear otherwise. With fewer than three seeds, verdicts are about the "
    "trainings at hand alone. Vacuous: its terms could not have been otherwise, or all lie at a bound of the metric. "
    "Not tested: a premise is not met, or the difference is below the error of an estimate."
)

Verdict: TypeAlias = Literal[
    "holds", "holds in this training", "holds in these trainings", "unclear", "fails", "fails in this training",
    "fails in these trainings", "vacuous", "not tested", "not run",
]  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What a run has for one value of a claim."""

    query: Query
    numbers: Mapping[int, Number] = field(default_factory=dict)  # by seed, where there is one
    cells: Mapping[int, CellResult] = field(default_factory=dict)  # that have them, by seed
    status: Literal["done", "failed", "not run"] = "not run"
    reason: str = ""  # why seeds have no number
    fixed: bool = False  # whether it is of one system without seeds, such as recorded outputs

    def of(self, seeds: Collection[int]) -> Collection[int]:
        """Return which of its numbers stand beside those of some seeds: the one of a system that has no seeds."""
        return self.numbers if self.fixed else seeds

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
    p: float | None = None  # of the claim; None where it was not tested
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
        found = {"verdict": self.verdict, "p": rounded(self.p), "remarks": [*self.remarks]}
        return {**claim, "requires": {**self.claim.requires}, "note": self.claim.note, **found, "values": values}


def judge(run: Run) -> list[Judgement]:
    """Return what became of each claim of a run's suite."""
    return [_judged(run, claim) for claim in run.suite.claims]


def _judged(run: Run, claim: Claim) -> Judgement:
    expression = read(claim.expression)
    if expression.term is None:
        return Judgement(claim, "not run", remarks=expression.problems)
    values = [found_of(run, query) for query in expression.queries]
    missing = [f"{one.query} is missing: {one.reason or one.status}" for one in values if not one.numbers]
    if missing:
        return Judgement(claim, "not run", values, remarks=missing)
    varying = [one for one in values if not one.fixed] or values
    seeds = sorted(set.intersection(*(set(one.numbers) for one in varying)))
    if not seeds:
        return Judgement(claim, "not run", values, remarks=["no seed has all of the values"])
    return _weighed(run, claim, expression.term, values, seeds)


def _weighed(run: Run, claim: Claim, term: Term, values: Sequence[Found], seeds: Sequence[int]) -> Judgement:
    from bench_reports.statistics.claim_tests import is_true, undefined
    from bench_reports.statistics.measurements import measured

    means = {one.query: summary(one.over(one.of(seeds))).mean for one in values}
    without = [f"{part} is no number" for part in dict.fromkeys(map(str, undefined(term, means)))]
    mixed = [f"the seeds of {one.query} have numbers of different kinds" for one in values if len(_variants(one)) > 1]
    remarks = [*without, *mixed, *_reservations(values, seeds)]
    if without or mixed:
        return Judgement(claim, "unclear", values, remarks=remarks)
    if premises := _unmet(run, claim):
        return Judgement(claim, "not tested", values, remarks=[*premises, *remarks])
    known: dict[Query, Measured] = {}
    reasons = []
    for one in values:
        found = measured(run, [one.cells[seed] for seed in one.of(seeds)], one.query.metric)
        if isinstance(found, str):
            reasons.append(f"{one.query}: {found}")
        else:
            known[one.query] = found
    if reasons:
        true = "true" if is_true(term, means) else "not true"
        return Judgement(claim, "not tested", values, remarks=[f"{true} of the means", *reasons, *remarks])
    return _tested(claim, term, values, known, remarks)


def _unmet(run: Run, claim: Claim) -> list[str]:
    """Return the premises of a claim that are not true of the means, or that nothing is known of."""
    from bench_reports.statistics.claim_tests import is_true

    found = []
    for premise, condition in claim.requires.items():
        expression = read(condition)
        values = {query: one.summary for query in expression.queries if (one := found_of(run, query)).numbers}
        lacking = [str(query) for query in expression.queries if query not in values]
        means = {query: one.mean for query, one in values.items()}
        if expression.term is None or lacking:
            found.append(f"premise not known: {premise} ({'; '.join([*expression.problems, *lacking])} missing)")
        elif not is_true(expression.term, means):
            numbers = ", ".join(f"{query} is {mean:.4g}" for query, mean in means.items())
            found.append(f"premise not met: {premise} ({numbers})")
    return found


def _tested(
    claim: Claim, term: Term, values: Sequence[Found], known: Mapping[Query, Measured], remarks: Sequence[str]
) -> Judgement:
    from bench_reports.statistics.claim_tests import ClaimTest
    from bench_reports.statistics.estimate import LEVEL

    seeds = min((len(one.values) for one in known.values() if one.trained), default=FEWEST)
    test = ClaimTest(known, only_these=seeds < FEWEST)
    pair = test.p_values(term)
    if test.vacuous:
        number = f"{len(test.vacuous)} of {counted(test.comparisons, 'comparison')}"
        remarks = [f"{number} could not have been otherwise: {'; '.join(test.vacuous[:SHOWN])}", *remarks]
    if pair is None:
        return Judgement(claim, "vacuous", values, remarks=remarks)
    where = "" if seeds >= FEWEST else " in this training" if seeds == 1 else " in these trainings"
    if min(pair) > LEVEL and test.unresolved:
        why = f"the difference is below the error of an estimate: {'; '.join(test.unresolved[:SHOWN])}"
        return Judgement(claim, "not tested", values, pair.true, [why, *remarks])
    if min(pair) > LEVEL:
        return Judgement(claim, "unclear", values, pair.true, [*remarks, *([f"judged{where}"] if where else [])])
    verdict = f"{'holds' if pair.true <= LEVEL else 'fails'}{where}"
    return Judgement(claim, cast("Verdict", verdict), values, pair.true, remarks)


def _reservations(values: Sequence[Found], seeds: Sequence[int]) -> list[str]:
    """Say where seeds are missing, and where values of one metric were not measured alike."""
    found = []
    lacking = [f"{one.query}: {one.reason}" for one in values if one.reason]
    if lacking or any(len(one.numbers) > len(seeds) for one in values):
        why = f" ({'; '.join(lacking)})" if lacking else ""
        found.append(f"judged by {counted(len(seeds), 'seed')}, as values of others are missing{why}")
    fixed = dict.fromkeys(join(*(name for _, name in one.query.axes)) for one in values if one.fixed)
    found += [f"{name} stands as it is: nothing is known of other trainings" for name in fixed]
    variants: dict[str, set[tuple[str, str]]] = {}
    for one in values:
        variants.setdefault(one.query.metric, set()).update(_variants(one))
    unlike = [metric for metric, known in variants.items() if len(known) > 1]
    return [*found, *(f"the values of {metric!r} differ in kind or signature" for metric in unlike)]


def _variants(one: Found) -> set[tuple[str, str]]:
    return {(number.kind, number.signature) for number in one.numbers.values()}


def found_of(run: Run, query: Query) -> Found:
    """Return the numbers by seed that answer a query."""
    cells = [one for one in run.cells if all(name_on(one, axis) == name for axis, name in query.axes)]
    cells = applicable(run, cells, query.metric) if query.metric in run.suite.metrics else []
    if not cells:
        profile = run.info.get("profile")
        return Found(query, reason="the run has no such cell" + (f" (profile {profile})" if profile else ""))
    if several := _several(cells, query):
        return Found(query, reason=several)
    numbers: dict[int, Number] = {}
    having: dict[int, CellResult] = {}
    for one in sorted(cells, key=seed_of):
        number = one.numbers.get(query.metric)
        if number is not None and number.value is not None:
            numbers[seed_of(one)] = number
            having[seed_of(one)] = one
    lacking = [one for one in cells if seed_of(one) not in numbers]
    words = [(one.status if one.status != "done" else "", why_missing(one, query.metric)) for one in lacking]
    reasons = [", ".join(filter(None, pair)) or "not measured" for pair in words]
    missing: Literal["failed", "not run"] = "failed" if any(one.status == "failed" for one in lacking) else "not run"
    why = "; ".join(dict.fromkeys(reasons))
    return Found(query, numbers, having, "done" if numbers else missing, why, is_fixed(run, cells))


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
