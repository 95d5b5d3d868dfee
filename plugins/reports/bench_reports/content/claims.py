"""Evaluation of a suite's claims on the results of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from bench_core.runs.results import CellResult, Run
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join
from bench_core.terminal import count_of
from bench_reports.content.choices import ChosenCombination, choices
from bench_reports.content.claim_families import judge_together
from bench_reports.content.cost_tables import with_cost
from bench_reports.content.judgements import LEVEL, ClaimValue, Evidence, Judgement, p_words
from bench_reports.content.sorting import applicable, by_key, is_fixed, name_on, number_of, seed_of, why_missing
from bench_reports.language.expressions import QUANTIFIER, Query, Term, read
from bench_reports.language.figure_schema import TRAINING_COSTS
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Claim
from bench_reports.statistics.intervals import summary

if TYPE_CHECKING:
    from bench_reports.statistics.claim_tests import ClaimTest, Quantified
    from bench_reports.statistics.estimate import Measured

MIN_SEEDS = 3  #: seeds needed for a verdict that generalizes to other training runs
#: training runs in which a condition on every run must be tested, if there are three runs or more
MIN_TESTED_TRAININGS = 2
MAX_LISTED = 3


def judge(run: Run) -> list[Judgement]:
    """Return the judgement of each claim of a run's suite."""
    from bench_reports.statistics.looks import level_of

    claims = language(run).claims
    chosen = any("chosen" in text for claim in claims for text in (claim.expression, *claim.requires.values()))
    made = choices(run) if chosen else []
    return judge_together([(claim, _judge_claim(run, claim, made)) for claim in claims], level_of(run.info))


def are_decided(run: Run) -> bool:
    """Return whether all primary claims, or all claims if none is primary, hold, fail or are vacuous."""
    judgements = judge(run)
    primary = [judgement for judgement in judgements if judgement.claim.primary] or judgements
    return all(judgement.verdict.startswith(("holds", "fails", "vacuous")) for judgement in primary)


def _judge_claim(run: Run, claim: Claim, made: Sequence[ChosenCombination]) -> Evidence:
    """Return the evidence for a claim, or the premises that are not supported."""
    evidence = _evidence(run, claim.expression, made)
    if evidence.pair is None and evidence.verdict != "vacuous":
        return evidence
    if unmet := [text for premise in claim.requires.items() for text in _unmet_premises(run, *premise, made)]:
        return replace(evidence, pair=None, verdict="not tested", remarks=[*unmet, *evidence.remarks])
    return evidence


def _unmet_premises(run: Run, premise: str, condition: str, made: Sequence[ChosenCombination]) -> Iterator[str]:
    """Yield a remark if a premise is refuted, not supported or not tested."""
    evidence = _evidence(run, condition, made)
    numbers = ", ".join(str(value) for value in evidence.values)
    if evidence.pair and evidence.pair.true > LEVEL:
        what = "refuted" if evidence.pair.false <= LEVEL else "not supported"
        yield f"premise {what}: {premise} ({numbers}; {p_words(evidence.pair.true)})"
    elif not evidence.pair:
        vacuous = f"{numbers}: could not have turned out differently"
        why = vacuous if evidence.verdict == "vacuous" else "; ".join(evidence.remarks) or numbers
        yield f"premise not tested: {premise} ({why})"


def _evidence(run: Run, text: str, made: Sequence[ChosenCombination]) -> Evidence:
    """Return the evidence for an expression from the values of a run."""
    expression = read(text)
    if expression.term is None:
        return Evidence(verdict="not run", remarks=expression.problems)
    values = [value_of(run, query, made) for query in expression.queries]
    evidence = Evidence(expression.term, values)
    missing = [f"{value.query} is missing: {value.reason or value.status}" for value in values if not value.numbers]
    if missing:
        return replace(evidence, verdict="not run", remarks=missing)
    varying = [value for value in values if not value.fixed] or values
    seeds = sorted(set.intersection(*(set(value.numbers) for value in varying)))
    if not seeds:
        return replace(evidence, verdict="not run", remarks=["no seed has all of the values"])
    return _weigh(run, evidence, expression.term, seeds)


def _weigh(run: Run, evidence: Evidence, term: Term, seeds: Sequence[int]) -> Evidence:
    from bench_reports.language.claim_terms import is_true, undefined
    from bench_reports.statistics.measurements import measured

    values = evidence.values
    means = {value.query: summary(value.over(value.of(seeds))).mean for value in values}
    invalid = [f"{part} is not a number" for part in dict.fromkeys(map(str, undefined(term, means)))]
    mixed = [
        f"the numbers of {value.query} differ in kind or signature between seeds"
        for value in values
        if len(_variants(value)) > 1
    ]
    remarks = [*invalid, *mixed, *_reservations(values, seeds)]
    if invalid or mixed:
        return replace(evidence, remarks=remarks)
    measurements: dict[Query, Measured] = {}
    reasons = []
    for value in values:
        measurement = measured(run, [value.cells[seed] for seed in value.of(seeds)], value.query.metric)
        if isinstance(measurement, str):
            reasons.append(f"{value.query}: {measurement}")
        else:
            measurements[value.query] = measurement
    if reasons:
        true = "true" if is_true(term, means) else "not true"
        return replace(evidence, verdict="not tested", remarks=[f"{true} for the means", *reasons, *remarks])
    return _test(replace(evidence, remarks=remarks), term, measurements)


def _test(evidence: Evidence, term: Term, measurements: Mapping[Query, Measured]) -> Evidence:
    from bench_reports.statistics.claim_tests import ClaimTest

    seeds = min(
        (len(measurement.values) for measurement in measurements.values() if measurement.trained), default=MIN_SEEDS
    )
    test = ClaimTest(measurements, seeds < MIN_SEEDS)
    pair = test.p_values(term)
    mixed = [
        f"the training runs of {query} differ qualitatively, so another run could go either way"
        for query in dict.fromkeys(test.mixed)
    ]
    remarks = [*_training_counts(test), *_limits(term, measurements), *mixed, *evidence.remarks]
    if test.vacuous:
        number = f"{len(test.vacuous)} of {count_of(test.comparisons, 'comparison')}"
        remarks = [
            f"{number} could not have turned out differently: {'; '.join(test.vacuous[:MAX_LISTED])}",
            *remarks,
        ]
    if pair is None:
        return replace(evidence, verdict="vacuous", remarks=remarks)
    trainings = min([seeds, *(_trainings(quantified) for quantified in test.quantified)])
    if test.mixed and trainings >= MIN_SEEDS:
        trainings = MIN_SEEDS - 1
    where = "" if trainings >= MIN_SEEDS else " in this training run" if trainings == 1 else " in these training runs"
    return replace(
        evidence, pair=pair, where=where, unresolved="; ".join(test.unresolved[:MAX_LISTED]), remarks=remarks
    )


def _trainings(quantified: Quantified) -> int:
    """Return the number of training runs that a quantified condition covers: all, if it was tested in several."""
    return quantified.trainings if quantified.tested >= MIN_TESTED_TRAININGS else max(1, quantified.tested)


def _training_counts(test: ClaimTest) -> Iterator[str]:
    """Yield the number of training runs in which conditions on every training run were tested."""
    by_number = by_key(((each.tested, each.trainings), each.condition) for each in test.quantified)
    for (tested, trainings), conditions in by_number.items():
        which = f": {'; '.join(conditions[:MAX_LISTED])}" if len(by_number) > 1 else ""
        yield f"tested in {tested} of {count_of(trainings, 'training run')}{which}"


def _limits(term: Term, measurements: Mapping[Query, Measured]) -> Iterator[str]:
    """Yield confidence limits of shares that are 0 or 100 % in every example."""
    from bench_reports.statistics.claim_tests import in_training
    from bench_reports.statistics.measurements import alone

    quantified = {inner.query for part in term.walk() if part.operation == QUANTIFIER for inner in part.walk()}
    for query, share in measurements.items():
        if share.scale == "share" and share.is_constant and share.draws is not None and share.mean in (0.0, 100.0):
            inside = query in quantified
            low, high = alone(in_training(share, 0) if inside else share).interval(2 * LEVEL)
            limit = f"up to {min(high, 100.0):.2g} %" if not share.mean else f"at least {max(low, 0.0):.4g} %"
            yield f"{query} may be {limit}{' in each training run' if inside else ''}"


def _reservations(values: Sequence[ClaimValue], seeds: Sequence[int]) -> list[str]:
    """Return remarks on missing seeds, fixed systems and metrics whose values differ in kind or signature."""
    remarks = []
    lacking = [f"{value.query}: {value.reason}" for value in values if value.reason]
    if lacking or any(len(value.numbers) > len(seeds) for value in values):
        why = f" ({'; '.join(lacking)})" if lacking else ""
        remarks.append(f"based on {count_of(len(seeds), 'seed')}; others have missing values{why}")
    fixed = dict.fromkeys(join(*(name for _, name in value.cell.axes)) for value in values if value.fixed)
    remarks += [f"{name} is a fixed system: its training variance is unknown" for name in fixed]
    variants = by_key((value.query.metric, variant) for value in values for variant in _variants(value))
    unlike = [metric for metric, kinds in variants.items() if len({*kinds}) > 1]
    return [*remarks, *(f"the values of {metric!r} differ in kind or signature" for metric in unlike)]


def _variants(value: ClaimValue) -> set[tuple[str, str]]:
    return {(number.kind, number.signature) for number in value.numbers.values()}


def value_of(run: Run, query: Query, made: Sequence[ChosenCombination] = ()) -> ClaimValue:
    """Return the numbers by seed that a query refers to; `made` are the choices of the run."""
    cell = _resolve_query(query, made) if query.chosen else query
    if isinstance(cell, str):
        return ClaimValue(query, query, reason=cell)
    value = partial(ClaimValue, query, cell)
    cells = [result for result in run.cells if all(name_on(result, axis) == name for axis, name in cell.axes)]
    if query.metric in TRAINING_COSTS:
        cells = with_cost(run, cells, query.metric)
    else:
        cells = applicable(run, cells, query.metric) if query.metric in run.suite.metrics else []
    if not cells:
        profile = run.info.get("profile")
        return value(reason="the run has no such cell" + (f" (profile {profile})" if profile else ""))
    if several := _several(cells, query):
        return value(reason=several)
    by_seed = {seed_of(result): result for result in sorted(cells, key=seed_of) if number_of(result, query.metric)}
    numbers = {seed: result.numbers[query.metric] for seed, result in by_seed.items()}
    lacking = [result for result in cells if seed_of(result) not in numbers]
    words = [
        (result.status if result.status != "done" else "", why_missing(result, query.metric)) for result in lacking
    ]
    reasons = [", ".join(filter(None, pair)) or "not measured" for pair in words]
    missing: Literal["failed", "not run"] = (
        "failed" if any(result.status == "failed" for result in lacking) else "not run"
    )
    why = "; ".join(dict.fromkeys(reasons))
    return value(numbers, by_seed, "done" if numbers else missing, why, is_fixed(run, cells))


def _resolve_query(query: Query, made: Sequence[ChosenCombination]) -> Query | str:
    """Return a query with the name that a choice selected, or the reason why there is none."""
    axes = dict(query.axes)
    ours = [
        chosen
        for chosen in made
        if chosen.choice.id == query.chosen
        and axes.get(chosen.choice.axis, chosen.grid.name) == chosen.grid.name
        and (axes.get("task", chosen.task), axes.get("hardware", chosen.hardware)) == (chosen.task, chosen.hardware)
        and axes.get("model", chosen.model) == chosen.model
    ]
    if len(ours) != 1:
        among = ", ".join(dict.fromkeys(join(chosen.task, chosen.model, chosen.grid.name) for chosen in ours))
        return f"several choices match: {among}" if ours else "the run has no such choice"
    (chosen,) = ours
    if chosen.name is None:
        return f"nothing was selected, as {chosen.reason}"
    names = {**axes, chosen.choice.axis: chosen.name}
    return Query(query.metric, tuple((axis, names[axis]) for axis in AXES if axis in names))


def _several(cells: Sequence[CellResult], query: Query) -> str:
    """Return why a query is ambiguous; empty if it is not. Cells that share a measurement count as one cell."""
    for seed in {seed_of(cell) for cell in cells}:
        same = [cell for cell in cells if seed_of(cell) == seed]
        measured = {cell.artifacts.get(f"measure/{query.metric}") for cell in same if cell.artifacts}
        if len(same) > 1 and measured and (len(measured) > 1 or None in measured):
            by_axis = {axis: list(dict.fromkeys(name_on(cell, axis) for cell in same)) for axis in AXES[:-1]}
            which = [f"{axis} {' or '.join(names)}" for axis, names in by_axis.items() if len(names) > 1]
            return f"several cells match: {', '.join(which)}"
    return ""
