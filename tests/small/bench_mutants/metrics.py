"""Metrics that are wrong in their meaning."""

from __future__ import annotations

import random
import time
from itertools import count
from math import fsum

from bench_core import Metric
from bench_mutants.laws import breaks
from bench_mutants.sound import Length, Match

OWN = ("wrong",)
ORDER = "order|place|differ|same|depend|twice|again|alone"


@breaks("a share in percent is at most 100", "%|percent|100|bound|range", OWN)
class AboveAll(Match):
    def from_sums(self, sums, examples):
        return 250.0


@breaks("a score is inside the range that its Config declares", "bound|range|declare", OWN)
class OutOfRange(Match):
    def from_sums(self, sums, examples):
        return -super().from_sums(sums, examples) - 1


@breaks("a score does not depend on what was measured before", ORDER, OWN)
class ByHistory(Length):
    turns = count(1)

    def measure(self, predictions):
        return [3050 * next(self.turns) for _ in predictions]


@breaks("a score does not depend on the time", ORDER + "|time", OWN)
class ByTime(Length):
    def measure(self, predictions):
        return [time.time_ns() % 1000 + one.target_tokens for one in predictions]


@breaks("a score does not depend on chance", ORDER + "|random|chance", OWN)
class ByChance(Length):
    def measure(self, predictions):
        chosen = random.SystemRandom()
        return [one.hypotheses[0].length * chosen.random() for one in predictions]


@breaks("a score does not depend on the numbers of examples", ORDER + "|id|number", OWN)
class ByNumber(Length):
    def measure(self, predictions):
        return [one.hypotheses[0].length * (one.id % 5) for one in predictions]


@breaks("a score does not depend on the identity of objects", ORDER + "|id", OWN)
class ByIdentity(Length):
    def measure(self, predictions):
        return [id(one) // 16 % 1000 for one in predictions]


@breaks("a score does not depend on how a process hashes text", ORDER + "|hash", OWN)
class ByHash(Length):
    def measure(self, predictions):
        return [hash(f"{one.id} {one.texts[0]}") % 1000 for one in predictions]


@breaks("a score counts all examples", ORDER, OWN)
class CountsTheFirst(Metric):
    better, unit, signature = 0, "tokens", "length"

    def measure(self, predictions):
        return [one.target_tokens for one in predictions]

    def combine(self, parts):
        return sum(parts[:9]) / len(parts[:9]) if parts else float("nan")


@breaks("a score does not depend on the order of examples", ORDER, OWN)
class ByOrder(Metric):
    better, unit, signature = 0, "tokens", "running"

    def measure(self, predictions):
        return [one.hypotheses[0].length for one in predictions]

    def combine(self, parts):
        value = 0.0
        for part in parts:
            value = (value + part) / 2
        return value


@breaks("what is measured of an example does not depend on its place", ORDER, OWN)
class ByPlace(Length):
    def measure(self, predictions):
        return [one.hypotheses[0].length * (place % 2) for place, one in enumerate(predictions)]


@breaks("the statistics of examples are in the order of the examples", ORDER, OWN)
class SortsItsParts(Length):
    def measure(self, predictions):
        return sorted(super().measure(predictions))


@breaks(
    "the score of a cell is the score of one sample like those of the bootstrap", "resampl|bootstrap|mean|sum", OWN
)
class MaximumForMean(Length):
    def combine(self, parts):
        return float(max(parts, default=0))


@breaks("a resample counts each example as often as it was drawn", "resampl|bootstrap|sum|repeat", OWN)
class ResamplesOnce(Length):
    def resample(self, parts, counts):
        return super().resample(parts, (counts > 0).astype(counts.dtype))


@breaks("the score of statistics depends on these alone", "sample|parts|resampl|number|twice|double|depend", OWN)
class DividesByTheCell(Metric):
    better, unit, signature = 0, "tokens", "cell"

    def measure(self, predictions):
        self.examples = len(predictions)
        return [one.hypotheses[0].length for one in predictions]

    def combine(self, parts):
        return fsum(parts) / self.examples


@breaks("a metric leaves the predictions that it reads as they were", ORDER + "|chang|prediction", OWN)
class EmptiesPredictions(Match):
    def measure(self, predictions):
        found = [*predictions]
        return [int(bool(one.references) and one.references.pop() == one.texts[0]) for one in found]


@breaks("what is not known is NaN, not 0", "unknown|known|NaN|None|nan|log_prob|lack", OWN)
class UnknownAsZero(Length):
    unit = "nats"

    def measure(self, predictions):
        return [-(one.hypotheses[0].log_prob or 0.0) for one in predictions]


@breaks("statistics are JSON data", "JSON|stor|key", OWN)
class KeysByNumber(Metric):
    better, unit, signature = 0, "tokens", "keys"

    def measure(self, predictions):
        return [{0: one.hypotheses[0].length} for one in predictions]

    def combine(self, parts):
        return sum(part[0] for part in parts) / len(parts)


@breaks("what is measured of an example is not that of another with the same text", ORDER, OWN)
class CachesByText(Length):
    def measure(self, predictions):
        known = {}
        return [known.setdefault(one.texts[0], one.target_tokens) for one in predictions]


@breaks("what is measured of an example is not relative to the others of its cell", ORDER + "|statistics", OWN)
class RelativeToTheCell(Length):
    def measure(self, predictions):
        lengths = super().measure(predictions)
        return [1 + length - sum(lengths) / len(lengths) for length in lengths]
