"""Compare significance tests with sacrebleu: `python benchmarks/significance.py [--quick]`.

Runs the paired bootstrap and the paired permutation test of BLEU (5 systems, 3,000 segments, 1,000 replicates), each system
against the first, alternating with sacrebleu: from texts, and from stored statistics per segment, which `bench diff` uses.
Times are CPU times.
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


class PrecomputedBLEU(BLEU):
    """BLEU with precomputed n-gram counts of all texts."""

    def __init__(self, references: Sequence[str], outputs: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.known: dict[int, Any] = {}
        for system in outputs:
            self.known[id(system)] = super()._extract_corpus_statistics(system, [references])

    def _extract_corpus_statistics(self, hypotheses: Sequence[str], references: Any) -> Any:
        return self.known[id(hypotheses)]


def texts(segments: int) -> tuple[list[str], list[list[str]]]:
    """Return references of 5 to 45 words, and outputs of systems of different quality."""
    dice = random.Random(0)
    references = [dice.choices(WORDS, k=dice.randint(5, 45)) for _ in range(segments)]

    def output(line: Sequence[str], quality: float) -> str:
        return " ".join(word if dice.random() < quality else dice.choice(WORDS) for word in line)

    outputs = [[output(line, 0.8 - 0.02 * number) for line in references] for number in range(SYSTEMS)]
    return [" ".join(line) for line in references], outputs


def measure(references: Sequence[str], outputs: Sequence[Sequence[str]]) -> list[Any]:
    """Return the statistics of each segment, for each system."""
    statistics = []
    for system in outputs:
        pairs = enumerate(zip(references, system, strict=True))
        predictions = [Prediction(i, references=[line], texts=[text]) for i, (line, text) in pairs]
        statistics.append(list(METRIC.measure(predictions)))
    return statistics


def bootstrap(systems: Sequence[Any]) -> list[float]:
    """Return our p-values of the paired bootstrap."""
    drawing._cached_counts.cache_clear()  # otherwise only the first run would sample
    (score, replicates), *others = [(METRIC.combine(parts), draws(METRIC, parts)) for parts in systems]
    return [koehn_p_value(score - other, replicates - each) for other, each in others]


def permutation(systems: Sequence[Any]) -> list[float]:
    """Return our p-values of the paired permutation test."""
    return [permutation_p_value(METRIC, [(systems[0], parts)], REPLICATES) for parts in systems[1:]]


def theirs(kind: str, scorer: BLEU, references: Sequence[str], outputs: Sequence[Sequence[str]]) -> list[float]:
    """Return sacrebleu's p-values."""
    named = [(f"system {number}", system) for number, system in enumerate(outputs)]
    test = PairedTest(named, {"BLEU": scorer}, [references], test_type=kind, n_samples=REPLICATES)
    return [result.p_value for result in test()[1]["BLEU"][1:]]


def alternate(run: Callable[[], Any], plain: Callable[[], Any], number: int) -> list[tuple[float, float]]:
    """Return CPU seconds of `run` and `plain`, timed alternately after an untimed warm-up."""
    pairs = []
    for _ in range(number + 1):
        start = process_time()
        run()
        middle = process_time()
        plain()
        pairs.append((middle - start, process_time() - middle))
    return pairs[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use fewer segments and runs, to test the script")
    quick = parser.parse_args().quick
    references, outputs = texts(SEGMENTS // 10 if quick else SEGMENTS)
    systems, counted = measure(references, outputs), PrecomputedBLEU(references, outputs)
    rows = []
    for name, test, kind in (("bootstrap", bootstrap, "bs"), ("permutation", permutation, "ar")):
        for start, ours, scorer in (
            ("texts", lambda test=test: test(measure(references, outputs)), BLEU()),
            ("statistics", lambda test=test: test(systems), counted),
        ):
            baseline = lambda kind=kind, scorer=scorer: theirs(kind, scorer, references, outputs)  # noqa: E731
            pairs = alternate(ours, baseline, 1 if quick else 5)
            mine, other = (median(side) for side in zip(*pairs, strict=True))
            ratios = [left / right for left, right in pairs]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            rows.append(
                [f"{name}, from {start}", mine, other, median(ratios), spread, "1.00" if kind == "bs" else ""]
            )
    headings = ["paired test", "seconds", "sacrebleu, seconds", "ratio", "range", "budget"]
    print(tabulate(rows, headings, "pipe", floatfmt=".2f"))


if __name__ == "__main__":
    main()
