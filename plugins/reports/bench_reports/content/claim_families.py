"""The claims of a suite together: Holm's correction of primary ones, and verdicts that respect implication."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from bench_core.runs.results import CellResult
from bench_core.suites.axes import AXES
from bench_core.terminal import counted
from bench_reports.content.judgements import LEVEL, Evidence, Judgement, Verdict, p_words
from bench_reports.content.sorting import name_on
from bench_reports.language.expressions import Query, Term
from bench_reports.language.schema import Claim


@dataclass
class _Tested:
    """A claim that was tested, and the p-values that decide."""

    claim: Claim
    term: Term  # with one name for each cell
    true: float
    false: float
    level: float  # of the test
    notes: list[str] = field(default_factory=list)

    def verdict(self) -> str:
        """Return what the p-values say."""
        return "holds" if self.true <= self.level else "fails" if self.false <= self.level else "unclear"


def together(found: Sequence[tuple[Claim, Evidence]], level: float = LEVEL) -> list[Judgement]:
    """Return the verdicts of claims that are judged together, at a level that is less if seeds were added."""
    tested = {claim.id: _tested(claim, one, level) for claim, one in found if one.pair}
    _correct([claim for claim, _ in found if claim.primary], tested)
    bounds = {value.query.metric: value.bounds for _, one in found for value in one.values if value.bounds}
    while _demote([*tested.values()], bounds):
        pass
    return [_judgement(claim, one, tested.get(claim.id)) for claim, one in found]


def chance(judged: Sequence[Judgement]) -> str:
    """Return how many claims there are, and how many would hold by chance at most."""
    tested = [one for one in judged if one.p is not None]
    others = sum(not one.claim.primary for one in tested)
    primary = sum(one.claim.primary for one in judged)
    parts = [f"{counted(len(judged), 'claim')}, {len(tested)} tested"]
    if primary:
        parts.append(f"{primary} primary, any of which holds wrongly in at most 5 % of experiments")
    if others:
        what = "of the others" if primary else "of them"
        parts.append(f"if none were true, {others * LEVEL:.2g} {what} would be expected to hold by chance, at most")
    return f"{'; '.join(parts)}."


def _tested(claim: Claim, found: Evidence, level: float) -> _Tested:
    assert found.term is not None
    assert found.pair is not None
    cells = {one.query: _located(one.query, one.cells) for one in found.values}
    tested = _Tested(claim, _renamed(found.term, cells), *found.pair, level)
    if level < LEVEL:
        tested.notes.append(f"tested at {100 * level:.2g} %, as seeds were added until claims were decided")
    return tested


def _located(query: Query, cells: Mapping[int, CellResult]) -> Query:
    """Return a query by all names of its first cell, so that each value has one name."""
    first = next(iter(cells.values()))
    return Query(query.metric, tuple((axis, name_on(first, axis)) for axis in AXES[:-1]))


def _renamed(term: Term, names: Mapping[Query, Query]) -> Term:
    query = names[term.query] if term.query else None
    return replace(term, query=query, parts=tuple(_renamed(part, names) for part in term.parts))


def _correct(primary: Sequence[Claim], tested: Mapping[str, _Tested]) -> None:
    """Correct the p-values of primary claims for their number, those that were not tested included."""
    from bench_reports.statistics.comparisons import holm

    ours = [tested[claim.id] for claim in primary if claim.id in tested]
    true, false = (holm([getattr(one, side) for one in ours], len(primary)) for side in ("true", "false"))
    for one, p, contrary in zip(ours, true, false, strict=True):
        one.true, one.false = p, contrary
        one.notes.append(f"{p_words(p)} by Holm's correction over {counted(len(primary), 'primary claim')}")


def _demote(tested: Sequence[_Tested], bounds: Mapping[str, tuple[float, float]]) -> bool:
    """Let no claim hold that implies one that does not, nor fail if one that implies it does not; say if any did.

    No claim holds more often by it, so that its error stays below 5 % (coherence: Gabriel, 1969).
    """
    from bench_reports.language.claim_proofs import implies

    for stronger in tested:
        for weaker in tested:
            holds = stronger.verdict() == "holds" != weaker.verdict()
            fails = weaker.verdict() == "fails" != stronger.verdict()
            if not (holds or fails) or stronger is weaker or not implies(stronger.term, weaker.term, bounds):
                continue
            if holds:
                stronger.true = weaker.true
                stronger.notes.append(f"it implies {weaker.claim.id}, which is not shown ({p_words(weaker.true)})")
            else:
                weaker.false = stronger.false
                weaker.notes.append(f"{stronger.claim.id}, which implies it, does not fail")
            return True
    return False


def _judgement(claim: Claim, found: Evidence, tested: _Tested | None) -> Judgement:
    if tested is None or found.pair is None:
        return Judgement(claim, found.verdict, found.values, remarks=found.remarks)
    verdict, remarks = tested.verdict(), [*tested.notes, *found.remarks]
    if verdict != "unclear":
        verdict += found.where
    elif found.unresolved:
        verdict = "not tested"
        remarks = [f"the difference is below the error of an estimate: {found.unresolved}", *remarks]
    elif found.where:
        remarks.append(f"judged{found.where}")
    adjusted = tested.true if tested.claim.primary or tested.true != found.pair.true else None
    return Judgement(claim, cast("Verdict", verdict), found.values, found.pair.true, adjusted, remarks)
