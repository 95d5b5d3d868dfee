"""Evaluates the claims of a suite on the results of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from bench_core.runs.results import CellResult, Run
from bench_core.suites.axes import AXES
from bench_core.suites.cells import join
from bench_core.terminal import counted
from bench_reports.content.choices import Chosen, choices
from bench_reports.content.claim_families import together
from bench_reports.content.cost_tables import with_cost
from bench_reports.content.judgements import LEVEL, Evidence, Found, Judgement, p_words
from bench_reports.content.sorting import applicable, by_key, is_fixed, name_on, number_of, seed_of, why_missing
from bench_reports.language.expressions import QUANTIFIER, Query, Term, read
from bench_reports.language.figure_schema import TRAINING_COSTS
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Claim
from bench_reports.statistics.intervals import summary

if TYPE_CHECKING:
    from bench_reports.statistics.claim_tests import ClaimTest, Quantified
    from bench_reports.statistics.estimate import Measured

FEWEST = 3  #: seeds of a verdict on other trainings than these
FEWEST_TESTED = 2  #: trainings in which a condition is tested that every one of three or more must meet
SHOWN = 3  # comparisons in a remark


def judge(run: Run) -> list[Judgement]:
    """Return what became of each claim of a run's suite."""
    from bench_reports.statistics.looks import level_of

    claims = language(run).claims
    chosen = any("chosen" in text for one in claims for text in (one.expression, *one.requires.values()))
    made = choices(run) if chosen else []
    return together([(claim, _judged(run, claim, made)) for claim in claims], level_of(run.info))


def decided(run: Run) -> bool:
    """Return whether the primary claims hold, fail or are vacuous; all claims, if none is primary."""
    judged = judge(run)
    primary = [one for one in judged if one.claim.primary] or judged
    return all(one.verdict.startswith(("holds", "fails", "vacuous")) for one in primary)


def _judged(run: Run, claim: Claim, made: Sequence[Chosen]) -> Evidence:
    """Return what is known of a claim whose premises are shown, or which are not."""
    found = _evidence(run, claim.expression, made)
    if found.pair is None and found.verdict != "vacuous":
        return found
    if unshown := [text for one in claim.requires.items() for text in _unshown(run, *one, made)]:
        return replace(found, pair=None, verdict="not tested", remarks=[*unshown, *found.remarks])
    return found


def _unshown(run: Run, premise: str, condition: str, made: Sequence[Chosen]) -> Iterator[str]:
    """Yield that a premise is refuted, not shown or not known."""
    found = _evidence(run, condition, made)
    numbers = ", ".join(str(one) for one in found.values)
    if found.pair and found.pair.true > LEVEL:
        what = "refuted" if found.pair.false <= LEVEL else "not shown"
        yield f"premise {what}: {premise} ({numbers}; {p_words(found.pair.true)})"
    elif not found.pair:
        vacuous = f"{numbers}: it could not have been otherwise"
        why = vacuous if found.verdict == "vacuous" else "; ".join(found.remarks) or numbers
        yield f"premise not tested: {premise} ({why})"


def _evidence(run: Run, text: str, made: Sequence[Chosen]) -> Evidence:
    """Return what the values of a run say of an expression."""
    expression = read(text)
    if expression.term is None:
        return Evidence(verdict="not run", remarks=expression.problems)
    values = [found_of(run, query, made) for query in expression.queries]
    found = Evidence(expression.term, values)
    missing = [f"{one.query} is missing: {one.reason or one.status}" for one in values if not one.numbers]
    if missing:
        return replace(found, verdict="not run", remarks=missing)
    varying = [one for one in values if not one.fixed] or values
    seeds = sorted(set.intersection(*(set(one.numbers) for one in varying)))
    if not seeds:
        return replace(found, verdict="not run", remarks=["no seed has all of the values"])
    return _weighed(run, found, expression.term, seeds)


def _weighed(run: Run, found: Evidence, term: Term, seeds: Sequence[int]) -> Evidence:
    from bench_reports.language.claim_terms import is_true, undefined
    from bench_reports.statistics.measurements import measured

    values = found.values
    means = {one.query: summary(one.over(one.of(seeds))).mean for one in values}
    without = [f"{part} is no number" for part in dict.fromkeys(map(str, undefined(term, means)))]
    mixed = [f"the seeds of {one.query} have numbers of different kinds" for one in values if len(_variants(one)) > 1]
    remarks = [*without, *mixed, *_reservations(values, seeds)]
    if without or mixed:
        return replace(found, remarks=remarks)
    known: dict[Query, Measured] = {}
    reasons = []
    for one in values:
        some = measured(run, [one.cells[seed] for seed in one.of(seeds)], one.query.metric)
        if isinstance(some, str):
            reasons.append(f"{one.query}: {some}")
        else:
            known[one.query] = some
    if reasons:
        true = "true" if is_true(term, means) else "not true"
        return replace(found, verdict="not tested", remarks=[f"{true} of the means", *reasons, *remarks])
    return _tested(replace(found, remarks=remarks), term, known)


def _tested(found: Evidence, term: Term, known: Mapping[Query, Measured]) -> Evidence:
    from bench_reports.statistics.claim_tests import ClaimTest

    seeds = min((len(one.values) for one in known.values() if one.trained), default=FEWEST)
    test = ClaimTest(known, seeds < FEWEST)
    pair = test.p_values(term)
    mixed = [f"trainings of {query} differ in kind, so others may be of any" for query in dict.fromkeys(test.mixed)]
    remarks = [*_tested_in(test), *_limits(term, known), *mixed, *found.remarks]
    if test.vacuous:
        number = f"{len(test.vacuous)} of {counted(test.comparisons, 'comparison')}"
        remarks = [f"{number} could not have been otherwise: {'; '.join(test.vacuous[:SHOWN])}", *remarks]
    if pair is None:
        return replace(found, verdict="vacuous", remarks=remarks)
    trainings = min([seeds, *(_trainings(one) for one in test.quantified)])
    if test.mixed and trainings >= FEWEST:
        trainings = FEWEST - 1
    where = "" if trainings >= FEWEST else " in this training" if trainings == 1 else " in these trainings"
    return replace(found, pair=pair, where=where, unresolved="; ".join(test.unresolved[:SHOWN]), remarks=remarks)


def _trainings(one: Quantified) -> int:
    """Return of how many trainings a quantified condition says something; of all, if it was tested in several."""
    return one.trainings if one.tested >= FEWEST_TESTED else max(1, one.tested)


def _tested_in(test: ClaimTest) -> Iterator[str]:
    """Yield in how many trainings conditions were tested that every one must meet."""
    by_number = by_key(((one.tested, one.trainings), one.condition) for one in test.quantified)
    for (tested, trainings), conditions in by_number.items():
        which = f": {'; '.join(conditions[:SHOWN])}" if len(by_number) > 1 else ""
        yield f"tested in {tested} of {counted(trainings, 'training')}{which}"


def _limits(term: Term, known: Mapping[Query, Measured]) -> Iterator[str]:
    """Yield the highest share that is not refuted where no example was a case, the lowest where every one was."""
    from bench_reports.statistics.claim_tests import in_training
    from bench_reports.statistics.measurements import alone

    quantified = {part.query for one in term.walk() if one.operation == QUANTIFIER for part in one.walk()}
    for query, one in known.items():
        if one.scale == "share" and one.is_constant and one.draws is not None and one.mean in (0.0, 100.0):
            inside = query in quantified
            low, high = alone(in_training(one, 0) if inside else one).interval(2 * LEVEL)
            limit = f"up to {min(high, 100.0):.2g} %" if not one.mean else f"at least {max(low, 0.0):.4g} %"
            yield f"{query} may be {limit}{' in each training' if inside else ''}"


def _reservations(values: Sequence[Found], seeds: Sequence[int]) -> list[str]:
    """Say where seeds are missing, and where values of one metric were not measured alike."""
    found = []
    lacking = [f"{one.query}: {one.reason}" for one in values if one.reason]
    if lacking or any(len(one.numbers) > len(seeds) for one in values):
        why = f" ({'; '.join(lacking)})" if lacking else ""
        found.append(f"judged by {counted(len(seeds), 'seed')}, as values of others are missing{why}")
    fixed = dict.fromkeys(join(*(name for _, name in one.cell.axes)) for one in values if one.fixed)
    found += [f"{name} stands as it is: nothing is known of other trainings" for name in fixed]
    variants = by_key((one.query.metric, variant) for one in values for variant in _variants(one))
    unlike = [metric for metric, known in variants.items() if len({*known}) > 1]
    return [*found, *(f"the values of {metric!r} differ in kind or signature" for metric in unlike)]


def _variants(one: Found) -> set[tuple[str, str]]:
    return {(number.kind, number.signature) for number in one.numbers.values()}


def found_of(run: Run, query: Query, made: Sequence[Chosen] = ()) -> Found:
    """Return the numbers by seed that answer a query; `made` are the choices of the run."""
    cell = _chosen(query, made) if query.chosen else query
    if isinstance(cell, str):
        return Found(query, query, reason=cell)
    found = partial(Found, query, cell)
    cells = [one for one in run.cells if all(name_on(one, axis) == name for axis, name in cell.axes)]
    if query.metric in TRAINING_COSTS:
        cells = with_cost(run, cells, query.metric)
    else:
        cells = applicable(run, cells, query.metric) if query.metric in run.suite.metrics else []
    if not cells:
        profile = run.info.get("profile")
        return found(reason="the run has no such cell" + (f" (profile {profile})" if profile else ""))
    if several := _several(cells, query):
        return found(reason=several)
    having = {seed_of(one): one for one in sorted(cells, key=seed_of) if number_of(one, query.metric)}
    numbers = {seed: one.numbers[query.metric] for seed, one in having.items()}
    lacking = [one for one in cells if seed_of(one) not in numbers]
    words = [(one.status if one.status != "done" else "", why_missing(one, query.metric)) for one in lacking]
    reasons = [", ".join(filter(None, pair)) or "not measured" for pair in words]
    missing: Literal["failed", "not run"] = "failed" if any(one.status == "failed" for one in lacking) else "not run"
    why = "; ".join(dict.fromkeys(reasons))
    return found(numbers, having, "done" if numbers else missing, why, is_fixed(run, cells))


def _chosen(query: Query, made: Sequence[Chosen]) -> Query | str:
    """Return a query by the name that a choice has found, or why there is none."""
    axes = dict(query.axes)
    ours = [
        one
        for one in made
        if one.choice.id == query.chosen
        and axes.get(one.choice.axis, one.grid.name) == one.grid.name
        and (axes.get("task", one.task), axes.get("hardware", one.hardware)) == (one.task, one.hardware)
        and axes.get("model", one.model) == one.model
    ]
    if len(ours) != 1:
        among = ", ".join(dict.fromkeys(join(one.task, one.model, one.grid.name) for one in ours))
        return f"it may mean several choices: {among}" if ours else "the run has made no such choice"
    (one,) = ours
    if one.name is None:
        return f"nothing is chosen, as {one.reason}"
    names = {**axes, one.choice.axis: one.name}
    return Query(query.metric, tuple((axis, names[axis]) for axis in AXES if axis in names))


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
