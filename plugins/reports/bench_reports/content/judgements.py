"""What a run has for the values of a claim, and what became of the claim."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bench_core.runs.results import CellResult, Number
from bench_core.suites.cells import join
from bench_reports.content.numbers import summarized
from bench_reports.language.expressions import Query, Term
from bench_reports.language.schema import Claim
from bench_reports.statistics.intervals import Summary, rounded, summary

if TYPE_CHECKING:
    from bench_reports.statistics.claim_tests import Pair

LEVEL = 0.05  #: of a claim
LEAST = 1e-6  # p-values below it are no measurements

MEANING = (
    "Every comparison of a claim is a test over examples and seeds. A claim holds if its p-value is at most 5 %, "
    "fails if that of its contrary is, and is unclear otherwise. With fewer than three seeds, verdicts are about the "
    "trainings at hand alone. Vacuous: no comparison could have been otherwise. Not tested: a premise is not shown, "
    "or the difference is below the error of an estimate."
)

Verdict: TypeAlias = Literal[
    "holds", "holds in this training", "holds in these trainings", "unclear", "fails", "fails in this training",
    "fails in these trainings", "vacuous", "not tested", "not run",
]  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What a run has for one value of a claim."""

    query: Query
    cell: Query  # the same by names of cells, with what a choice has found
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
        name = join(*(name for _, name in self.cell.axes))
        chosen = f"(chosen by {self.query.chosen})" if self.query.chosen and self.numbers else ""
        number = next(iter(self.numbers.values()), Number())
        sign = {"bound": "≥" if number.better > 0 else "≤", "estimate": "≈"}.get(number.kind, "")
        value = summarized(self.summary, number.digits) if self.numbers else self.status
        return " ".join(word for word in (name, chosen, sign, value) if word)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the lowest and highest possible score; None of a metric that declared none when it was run."""
        number = next(iter(self.numbers.values()), Number())
        low, high = number.bounds or ((0.0, 100.0) if number.scale == "share" else (None, None))
        return None if low is None or high is None else (float(low), float(high))

    def record(self) -> dict[str, Any]:
        """Return the value as plain data."""
        chosen = {"chosen": self.query.chosen} if self.query.chosen else {}
        about = {"metric": self.query.metric, "axes": dict(self.cell.axes), **chosen}
        numbers = vars(self.summary) if self.numbers else {"mean": None, "std": None, "n": 0}
        return {**about, "status": self.status, "reason": self.reason, **numbers}


@dataclass(frozen=True)
class Evidence:
    """What the values of an expression say of it."""

    term: Term | None = None
    values: Sequence[Found] = ()
    pair: Pair | None = None  # None where nothing was tested
    verdict: Verdict = "unclear"  # where nothing was tested: why
    where: str = ""  # " in this training" or " in these trainings" if there are too few for others
    unresolved: str = ""  # what is below the error of an estimate
    remarks: Sequence[str] = ()  # what a reader of the verdict must know


@dataclass(frozen=True)
class Judgement:
    """What became of a claim, and by what values."""

    claim: Claim
    verdict: Verdict
    values: Sequence[Found] = ()
    p: float | None = None  # of the claim; None where it was not tested
    adjusted: float | None = None  # that decides: for primary claims, and for claims that imply others
    remarks: Sequence[str] = ()  # what a reader of the verdict must know

    @property
    def why(self) -> str:
        """Return the values, by metric, the p-value and the remarks as one line."""
        metrics = dict.fromkeys(one.query.metric for one in self.values)
        by_metric = {name: ", ".join(str(one) for one in self.values if one.query.metric == name) for name in metrics}
        p = [] if self.p is None else [p_words(self.p)]
        return "; ".join([*(f"{name} {values}" for name, values in by_metric.items()), *p, *self.remarks])

    def record(self) -> dict[str, Any]:
        """Return the judgement as plain data."""
        claim = {"id": self.claim.id, "text": self.claim.text, "assert": self.claim.expression}
        about = {"requires": {**self.claim.requires}, "primary": self.claim.primary, "note": self.claim.note}
        found = {"verdict": self.verdict, "p": rounded(self.p), "adjusted": rounded(self.adjusted)}
        values = [one.record() for one in self.values]
        return {**claim, **about, **found, "remarks": [*self.remarks], "values": values}


def p_words(p: float) -> str:
    """Return a p-value in words, such as `p = 0.031`; those below 1e-6 are no measurements."""
    return "p < 1e-6" if p < LEAST else f"p = {p:.2g}"
