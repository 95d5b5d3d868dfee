"""The claims of a suite together: Holm's correction over primary ones, and verdicts that respect implication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from bench_core.suites.schema import Claim
from bench_reports.content.claims import Evidence, Judgement, Verdict, p_words
from bench_reports.statistics.comparisons import holm
from bench_reports.statistics.estimate import LEVEL


def together(found: Sequence[tuple[Claim, Evidence]]) -> list[Judgement]:
    """Return the verdicts of claims that are judged together."""
    primary = [claim.id for claim, _ in found if claim.primary]
    tested = {claim.id: one.pair for claim, one in found if one.pair}
    true = {name: pair.true for name, pair in tested.items()}
    family = [name for name in primary if name in tested]
    corrected = dict(zip(family, holm([true[name] for name in family], len(primary)), strict=True))
    return [_judgement(claim, one, corrected, len(primary)) for claim, one in found]


def _judgement(claim: Claim, found: Evidence, corrected: Mapping[str, float], primary: int) -> Judgement:
    if found.pair is None:
        return Judgement(claim, found.verdict, found.values, remarks=found.remarks)
    p, false = found.pair
    adjusted = corrected.get(claim.id, p)
    remarks = [*found.remarks]
    if claim.id in corrected:
        remarks = [f"{p_words(adjusted)} by Holm's correction over {primary} primary claims", *remarks]
    verdict = f"{'holds' if adjusted <= LEVEL else 'fails'}{found.where}"
    if min(adjusted, false) > LEVEL:
        verdict = "unclear"
        if found.unresolved:
            verdict, remarks = (
                "not tested",
                [f"the difference is below the error of an estimate: {found.unresolved}", *remarks],
            )
        elif found.where:
            remarks = [*remarks, f"judged{found.where}"]
    return Judgement(claim, cast("Verdict", verdict), found.values, p, adjusted if adjusted != p else None, remarks)
