"""What significance costs: `python benchmarks/significance.py [--quick]`.

BLEU of 5 systems of 3,000 segments, 1,000 draws: the paired bootstrap and the paired permutation test of each system
against the first, in turns with those of sacrebleu: from texts, and from the statistics of each segment, which a store
keeps and `bench diff` begins with. Times are those of the processor, whatever else is going on.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from statistics import median
from time import process_time
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from tabulate import tabulate

from bench_core import Prediction
from bench_core.computing.bootstrap import draws
from bench_metrics.plugin import BleuConfig
from bench_reports.statistics.permutation import koehn_p_value, permutation_p_value
from block_bootstrap import REPLICATES, drawing

SYSTEMS, SEGMENTS = 5, 3_000
WORDS = [f"word{number}" for number in range(2_000)]
METRIC = BleuConfig().load()(BleuConfig())


class Counted(BLEU):
    """BLEU that has counted the n-grams of all texts before."""

    def __init__(self, references: Sequence[str], outputs: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.known: dict[int, Any] = {}
        for system in outputs:
            self.known[id(system)] = super()._extract_corpus_statistics(system, [references])

    def _extract_corpus_statistics(self, hypotheses: Sequence[str], references: Any) -> Any:
        return self.known[id(hypotheses)]


def texts(segments: int) -> tuple[list[str], list[list[str]]]:
    """Return references of 5 to 45 words, and what systems of different qualities make of them."""
    dice = random.Random(0)
    references = [dice.choices(WORDS, k=dice.randint(5, 45)) for _ in range(segments)]

    def output(line: Sequence[str], quality: float) -> str:
        return " ".join(word if dice.random() < quality else dice.choice(WORDS) for word in line)

    outputs = [[output(line, 0.8 - 0.02 * number) for line in references] for number in range(SYSTEMS)]
    return [" ".join(line) for line in references], outputs


def measured(references: Sequence[str], outputs: Sequence[Sequence[str]]) -> list[Any]:
    """Return the statistics of each segment, of each system."""
    found = []
    for system in outputs:
        pairs = enumerate(zip(references, system, strict=True))
        predictions = [Prediction(i, references=[line], texts=[text]) for i, (line, text) in pairs]
        found.append(list(METRIC.measure(predictions)))
    return found


def bootstrap(systems: Sequence[Any]) -> list[float]:
    """Return our p-values of the paired bootstrap."""
    drawing._cached_counts.cache_clear()  # else only the first turn would draw
    (score, drawn), *others = [(METRIC.combine(parts), draws(METRIC, parts)) for parts in systems]
    return [koehn_p_value(score - other, drawn - each) for other, each in others]


def permutation(systems: Sequence[Any]) -> list[float]:
    """Return our p-values of the paired permutation test."""
    return [permutation_p_value(METRIC, [(systems[0], parts)], REPLICATES) for parts in systems[1:]]


def theirs(kind: str, scorer: BLEU, references: Sequence[str], outputs: Sequence[Sequence[str]]) -> list[float]:
    """Return sacrebleu's p-values."""
    named = [(f"system {number}", system) for number, system in enumerate(outputs)]
    test = PairedTest(named, {"BLEU": scorer}, [references], test_type=kind, n_samples=REPLICATES)
    return [one.p_value for one in test()[1]["BLEU"][1:]]


def turns(one: Callable[[], Any], other: Callable[[], Any], number: int) -> list[tuple[float, float]]:
    """Return the seconds that each of two takes, in turns, after a turn that does not count."""
    found = []
    for _ in range(number + 1):
        began = process_time()
        one()
        between = process_time()
        other()
        found.append((between - began, process_time() - between))
    return found[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer segments and turns, for a look")
    quick = parser.parse_args().quick
    references, outputs = texts(SEGMENTS // 10 if quick else SEGMENTS)
    systems, counted = measured(references, outputs), Counted(references, outputs)
    rows = []
    for name, test, kind in (("bootstrap", bootstrap, "bs"), ("permutation", permutation, "ar")):
        for start, ours, scorer in (
            ("texts", lambda test=test: test(measured(references, outputs)), BLEU()),
            ("statistics", lambda test=test: test(systems), counted),
        ):
            beside = lambda kind=kind, scorer=scorer: theirs(kind, scorer, references, outputs)  # noqa: E731
            found = turns(ours, beside, 1 if quick else 5)
            mine, other = (median(side) for side in zip(*found, strict=True))
            ratios = [left / right for left, right in found]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            rows.append(
                [f"{name}, from {start}", mine, other, median(ratios), spread, "1.00" if kind == "bs" else ""]
            )
    headings = ["paired test", "seconds", "sacrebleu beside it", "ratio", "in single turns", "budget"]
    print(tabulate(rows, headings, "pipe", floatfmt=".2f"))


if __name__ == "__main__":
    main()
