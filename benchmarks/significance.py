"""What significance costs: `python benchmarks/significance.py [--quick]`.

Paired bootstrap of BLEU for 5 systems of 3,000 segments, 1,000 draws: from texts to p-values, against sacrebleu's own
test in turns. What a suite pays at a report is less: draws are made when a system is measured, and kept.
"""

from __future__ import annotations

import argparse
import random
from statistics import median
from time import perf_counter

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from tabulate import tabulate

from bench_core import Outcome, resampling
from bench_core.reporting.permutation import permutation_p_value
from bench_core.reporting.significance import koehn_p_value
from bench_metrics.plugin import BleuConfig

SYSTEMS, SEGMENTS, DRAWS = 5, 3_000, resampling.DRAWS
BUDGET = 1.8  # seconds, sacrebleu's own time on two cores when this was planned
WORDS = [f"word{number}" for number in range(2_000)]


def texts(segments: int) -> tuple[list[str], list[list[str]]]:
    """Return references of 5 to 45 words, and what systems of different qualities make of them."""
    dice = random.Random(0)
    references = [dice.choices(WORDS, k=dice.randint(5, 45)) for _ in range(segments)]
    outputs = [
        [
            " ".join(word if dice.random() < 0.8 - 0.02 * one else dice.choice(WORDS) for word in line)
            for line in references
        ]
        for one in range(SYSTEMS)
    ]
    return [" ".join(line) for line in references], outputs


def ours(references: list[str], outputs: list[list[str]]) -> list[float]:
    """Return the p-value of each system against the first."""
    resampling._kept.cache_clear()  # else only the first turn would draw
    metric = BleuConfig().load()(BleuConfig())
    found = []
    for system in outputs:
        pairs = zip(references, system, strict=True)
        parts = metric.measure([Outcome(i, references=[line], texts=[text]) for i, (line, text) in enumerate(pairs)])
        found.append((metric.combine(parts), resampling.draws(metric, parts)))
    (first, drawn), *others = found
    return [koehn_p_value(first - score, drawn - each) for score, each in others]


def theirs(references: list[str], outputs: list[list[str]], kind: str = "bs") -> list[float]:
    """Return the p-values of sacrebleu's paired bootstrap, or of its approximate randomization."""
    named = [(f"system {number}", system) for number, system in enumerate(outputs)]
    test = PairedTest(named, {"BLEU": BLEU()}, [references], test_type=kind, n_samples=DRAWS)
    return [one.p_value for one in test()[1]["BLEU"][1:]]


def our_permutations(references: list[str], outputs: list[list[str]]) -> list[float]:
    """Return the p-value of the permutation test of each system against the first."""
    metric = BleuConfig().load()(BleuConfig())
    several = []
    for system in outputs:
        pairs = zip(references, system, strict=True)
        several.append(
            metric.measure([Outcome(i, references=[line], texts=[text]) for i, (line, text) in enumerate(pairs)])
        )
    return [permutation_p_value(metric, [(several[0], parts)], DRAWS) for parts in several[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer segments and turns, for a look")
    quick = parser.parse_args().quick
    made = texts(SEGMENTS // 10 if quick else SEGMENTS)
    rows = []
    for name, one, other, budget in (
        ("paired bootstrap", ours, theirs, f"{BUDGET} s"),
        ("paired permutation", our_permutations, lambda *given: theirs(*given, kind="ar"), ""),
    ):
        times: list[tuple[float, float]] = []
        for _ in range(2 if quick else 6):
            began = perf_counter()
            one(*made)
            between = perf_counter()
            other(*made)
            times.append((between - began, perf_counter() - between))
        mine, beside = (median(side) for side in zip(*times[1:], strict=True))  # the first turn does not count
        ratios = [left / right for left, right in times[1:]]
        met = "" if not budget else "yes" if mine < BUDGET else "no"
        rows.append([name, mine, beside, median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}", budget, met])
    headings = ["test", "seconds", "sacrebleu beside it", "ratio", "in single turns", "budget", "met"]
    print(tabulate(rows, headings, "pipe", floatfmt=".2f"))


if __name__ == "__main__":
    main()
