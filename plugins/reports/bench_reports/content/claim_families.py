"""Joint verdicts on the claims of a suite: Holm's correction of primary claims, and consistency with implications."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from bench_core.runs.results import CellResult
from bench_core.suites.axes import AXES
from bench_core.terminal import count_of
from bench_reports.content.judgements import LEVEL, Evidence, Judgement, Verdict, p_words
from bench_reports.content.sorting import name_on
from bench_reports.language.expressions import Query, Term
from bench_reports.language.schema import Claim


@dataclass
class _ClaimUnderTest:
    """A tested claim and its deciding p-values."""

    claim: Claim
    term: Term  # with a unique name for each cell
    true: float  # p-value of the claim
    false: float  # p-value of its negation
    level: float
    notes: list[str] = field(default_factory=list)

    def verdict(self) -> str:
        """Return the verdict from the p-values."""
        return "holds" if self.true <= self.level else "fails" if self.false <= self.level else "unclear"


def judge_together(evidences: Sequence[tuple[Claim, Evidence]], level: float = LEVEL) -> list[Judgement]:
    """Return the joint verdicts of claims; `level` is lower if seeds were added."""
    tested = {claim.id: _test_claim(claim, evidence, level) for claim, evidence in evidences if evidence.pair}
    _correct([claim for claim, _ in evidences if claim.primary], tested)
    bounds = {
        value.query.metric: value.bounds for _, evidence in evidences for value in evidence.values if value.bounds
    }
    while _demote([*tested.values()], bounds):
        pass
    return [_judge(claim, evidence, tested.get(claim.id)) for claim, evidence in evidences]


def chance(judged: Sequence[Judgement]) -> str:
    """Return the number of claims, and the expected number that would hold by chance."""
    tested = [judgement for judgement in judged if judgement.p is not None]
    others = sum(not judgement.claim.primary for judgement in tested)
    primary = sum(judgement.claim.primary for judgement in judged)
    parts = [f"{count_of(len(judged), 'claim')}, {len(tested)} tested"]
    if primary:
        parts.append(f"{primary} primary, with a family-wise error rate of at most 5 %")
    if others:
        what = "of the others" if primary else "of them"
        parts.append(f"if none were true, at most {others * LEVEL:.2g} {what} would be expected to hold by chance")
    return f"{'; '.join(parts)}."


def _test_claim(claim: Claim, evidence: Evidence, level: float) -> _ClaimUnderTest:
    assert evidence.term is not None
    assert evidence.pair is not None
    cells = {value.query: _cell_query(value.query, value.cells) for value in evidence.values}
    tested = _ClaimUnderTest(claim, _rename_queries(evidence.term, cells), *evidence.pair, level)
    if level < LEVEL:
        tested.notes.append(
            f"tested at the {100 * level:.2g} % level, as seeds were added until the claims were decided"
        )
    return tested


def _cell_query(query: Query, cells: Mapping[int, CellResult]) -> Query:
    """Return a query with all names of its first cell, so that each value has a unique name."""
    first = next(iter(cells.values()))
    return Query(query.metric, tuple((axis, name_on(first, axis)) for axis in AXES[:-1]))


def _rename_queries(term: Term, names: Mapping[Query, Query]) -> Term:
    query = names[term.query] if term.query else None
    return replace(term, query=query, parts=tuple(_rename_queries(part, names) for part in term.parts))


def _correct(primary: Sequence[Claim], tested: Mapping[str, _ClaimUnderTest]) -> None:
    """Apply Holm's correction to the primary claims, counting untested claims."""
    from bench_reports.statistics.comparisons import holm

    ours = [tested[claim.id] for claim in primary if claim.id in tested]
    true, false = (holm([getattr(claim, side) for claim in ours], len(primary)) for side in ("true", "false"))
    for claim, p, negation in zip(ours, true, false, strict=True):
        claim.true, claim.false = p, negation
        claim.notes.append(f"{p_words(p)} after Holm's correction over {count_of(len(primary), 'primary claim')}")


def _demote(tested: Sequence[_ClaimUnderTest], bounds: Mapping[str, tuple[float, float]]) -> bool:
    """Withdraw one verdict that contradicts an implication; return whether any verdict did.

    A claim holds only if all claims that it implies hold, and fails only if all claims that imply it fail. Verdicts
    are only withdrawn, so that the error stays below 5 % (coherence: Gabriel, 1969).
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
                stronger.notes.append(f"it implies {weaker.claim.id}, which does not hold ({p_words(weaker.true)})")
            else:
                weaker.false = stronger.false
                weaker.notes.append(f"{stronger.claim.id}, which implies it, does not fail")
            return True
    return False


def _judge(claim: Claim, evidence: Evidence, tested: _ClaimUnderTest | None) -> Judgement:
    if tested is None or evidence.pair is None:
        return Judgement(claim, evidence.verdict, evidence.values, remarks=evidence.remarks)
    verdict, remarks = tested.verdict(), [*tested.notes, *evidence.remarks]
    if verdict != "unclear":
        verdict += evidence.where
    elif evidence.unresolved:
        verdict = "not tested"
        remarks = [f"the difference is smaller than an estimate's error: {evidence.unresolved}", *remarks]
    elif evidence.where:
        remarks.append(f"judged{evidence.where}")
    adjusted = tested.true if tested.claim.primary or tested.true != evidence.pair.true else None
    return Judgement(claim, cast("Verdict", verdict), evidence.values, evidence.pair.true, adjusted, remarks)
