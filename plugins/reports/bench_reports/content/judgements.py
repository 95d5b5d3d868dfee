"""The values of a claim in a run, and the judgement of the claim."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bench_core.runs.results import CellResult, Score
from bench_core.suites.cells import join
from bench_reports.content.numbers import summary_text
from bench_reports.language.expressions import Query, Term
from bench_reports.language.schema import Claim
from bench_reports.statistics.intervals import Summary, rounded, summary

if TYPE_CHECKING:
    from bench_reports.statistics.claim_tests import ClaimPair

LEVEL = 0.05  #: significance level of a claim
MIN_P = 1e-6  # smaller p-values are below the resolution of the tests

MEANING = (
    "Each comparison in a claim is tested over examples and seeds. A claim holds if its p-value is at most 5 %, "
    "fails if the p-value of its negation is at most 5 %, and is unclear otherwise."
)
MEANINGS = {
    "training": "With fewer than three seeds, verdicts apply to these training runs only.",
    "vacuous": "Vacuous: no comparison could have turned out differently.",
    "not tested": "Not tested: a premise is not supported, or the difference is smaller than an estimate's error.",
}  #: by words in verdicts

Verdict: TypeAlias = Literal[
    "holds", "holds in this training run", "holds in these training runs", "unclear", "fails",
    "fails in this training run", "fails in these training runs", "vacuous", "not tested", "not run",
]  # fmt: skip


@dataclass(frozen=True)
class ClaimValue:
    """One value of a claim, with its numbers in a run."""

    query: Query
    cell: Query  # the query with `chosen` names replaced by the selection
    numbers: Mapping[int, Score] = field(default_factory=dict)  # by seed
    cells: Mapping[int, CellResult] = field(default_factory=dict)  # by seed, only with a number
    status: Literal["done", "failed", "not run"] = "not run"
    reason: str = ""  # why seeds have no number
    fixed: bool = False  # whether it belongs to a fixed system without seeds, such as recorded outputs

    def of(self, seeds: Collection[int]) -> Collection[int]:
        """Return the seeds to compare with `seeds`; for a fixed system, all seeds that it has."""
        return self.numbers if self.fixed else seeds

    def over(self, seeds: Iterable[int]) -> list[float]:
        """Return the numbers of these seeds."""
        return [value for seed in seeds if (value := self.numbers[seed].value) is not None]

    @property
    def summary(self) -> Summary:
        """Mean and standard deviation over all seeds that have a number."""
        return summary(self.over(self.numbers))

    def __str__(self) -> str:
        name = join(*(name for _, name in self.cell.axes))
        chosen = f"(chosen by {self.query.chosen})" if self.query.chosen and self.numbers else ""
        number = next(iter(self.numbers.values()), Score())
        sign = {"bound": "≥" if number.better > 0 else "≤", "estimate": "≈"}.get(number.kind, "")
        value = summary_text(self.summary, number.digits) if self.numbers else self.status
        return " ".join(word for word in (name, chosen, sign, value) if word)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and highest possible score; None if the metric declared no bounds in the run."""
        number = next(iter(self.numbers.values()), Score())
        low, high = number.bounds or ((0.0, 100.0) if number.scale == "share" else (None, None))
        return None if low is None or high is None else (float(low), float(high))

    def record(self) -> dict[str, Any]:
        """Return the value as JSON data."""
        chosen = {"chosen": self.query.chosen} if self.query.chosen else {}
        about = {"metric": self.query.metric, "axes": dict(self.cell.axes), **chosen}
        numbers = vars(self.summary) if self.numbers else {"mean": None, "std": None, "n": 0}
        return {**about, "status": self.status, "reason": self.reason, **numbers}


@dataclass(frozen=True)
class Evidence:
    """The evidence for an expression: its values and test."""

    term: Term | None = None
    values: Sequence[ClaimValue] = ()
    pair: ClaimPair | None = None  # None if nothing was tested
    verdict: Verdict = "unclear"  # why nothing was tested
    where: str = ""  # " in this training run" or " in these training runs" if there are too few to generalize
    unresolved: str = ""  # comparisons below the error of an estimate
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim, with the values that it is based on."""

    claim: Claim
    verdict: Verdict
    values: Sequence[ClaimValue] = ()
    p: float | None = None  # None if not tested
    adjusted: float | None = None  # deciding p-value of primary claims and of claims that imply others
    remarks: Sequence[str] = ()

    @property
    def why(self) -> str:
        """The values by metric, the p-value and the remarks, on one line."""
        metrics = dict.fromkeys(value.query.metric for value in self.values)
        by_metric = {
            name: ", ".join(str(value) for value in self.values if value.query.metric == name) for name in metrics
        }
        p = [] if self.p is None else [p_words(self.p)]
        return "; ".join([*(f"{name} {values}" for name, values in by_metric.items()), *p, *self.remarks])

    def record(self) -> dict[str, Any]:
        """Return the judgement as JSON data."""
        claim = {"id": self.claim.id, "text": self.claim.text, "assert": self.claim.expression}
        about = {"requires": {**self.claim.requires}, "primary": self.claim.primary, "note": self.claim.note}
        result = {"verdict": self.verdict, "p": rounded(self.p), "adjusted": rounded(self.adjusted)}
        values = [value.record() for value in self.values]
        return {**claim, **about, **result, "remarks": [*self.remarks], "values": values}


def p_words(p: float) -> str:
    """Return a formatted p-value, such as `p = 0.031` or `p < 1e-6`."""
    return "p < 1e-6" if p < MIN_P else f"p = {p:.2g}"
