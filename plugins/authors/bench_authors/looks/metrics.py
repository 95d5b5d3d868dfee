"""Scores some predictions again: scores must not depend on order, ids, object identity, time or chance."""

import json
import math
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from bench_core.computing.laws import BrokenLaw, Laws
from bench_core.computing.process_state import States, generators, restore
from bench_core.computing.result_checks import named
from bench_core.data import Prediction, TaskInfo
from bench_core.metric import Metric
from bench_core.storage.predictions import References

MAX_PREDICTIONS = 8  #: maximum number of predictions to score again
COSTLY = 2.0  #: seconds; a process does not repeat a look that takes longer
TOLERANCE = 1e-9  #: relative rounding error of a score
STAGE_TOLERANCE = 1e-6  #: relative error over all examples of a stage, which may be summed in single precision

NUMBERS, ORDER = "numbers_of_examples_do_not_matter", "the_order_of_predictions_does_not_matter"
AGAIN, PARTS_ALONE = "measured_again_it_is_the_same", "any_choice_of_parts_has_a_score"
RESAMPLES, STORED = "a_resample_scores_as_its_parts_do", "parts_survive_being_stored"
READS_ONLY, UNKNOWN = "predictions_are_left_as_they_are", "what_is_unknown_is_no_number"

_costly: set[str] = set()  # Configs of metrics that this process does not look at again


@dataclass(frozen=True)
class MetricLook:
    """Scores some predictions again with newly built metrics."""

    build: Callable[[], Metric[Any]]
    info: TaskInfo
    laws: Laws
    seeded: States = field(default_factory=generators)  # gives every call the same random numbers

    def at_predictions(self, predictions: Sequence[Prediction], salt: str) -> None:
        """Raise PluginError if some predictions score differently in another order, as copies, or with other ids.

        A bootstrap sample must have the same score as its examples. Metrics that need more predictions are skipped.
        """
        number, turns = len(predictions), range(4 * MAX_PREDICTIONS if predictions else 0)
        places = {crc32(f"{salt} {turn}".encode()) % number for turn in turns}
        some = [predictions[place] for place in sorted([*places][:MAX_PREDICTIONS])]
        config = repr(self.build().config)
        if not some or config in _costly:
            return
        began = time.monotonic()
        try:
            self._at(some)
        except BrokenLaw:
            raise
        except Exception:  # the metric cannot score these predictions without the others
            return
        finally:
            restore(self.seeded)  # so that later random numbers are unaffected
            if time.monotonic() - began > COSTLY:
                _costly.add(config)

    def at_parts(self, metric: Metric[Any], parts: Sequence[Any]) -> None:
        """Raise PluginError if the statistics of a stage have a different score in reverse order.

        Skips metrics whose look is costly, or whose score takes more than half of `COSTLY` seconds.
        """
        if len(parts) <= MAX_PREDICTIONS or repr(metric.config) in _costly:
            return
        scores, whole, began = list[float](), [*parts], time.process_time()
        for several in (whole, whole[::-1]):
            restore(self.seeded)
            scores.append(metric.combine(several))
            if time.process_time() - began > COSTLY / 2:
                break
        restore(self.seeded)
        if not _same(scores[:1], scores[-1:], STAGE_TOLERANCE):
            text = f"scores {len(parts)} statistics as {scores[0]:.6g}, but as {scores[1]:.6g} in reverse order."
            self.laws.broken(ORDER, f"{named(metric, 'combine')} {text}")

    def _at(self, predictions: Sequence[Prediction]) -> None:
        intact = deepcopy([*predictions])
        try:
            metric, parts, scores = self._score_again(predictions)
        except Exception:  # the metric needs more examples, or cannot read its own stored statistics
            self._check_stored(intact)
            return
        if predictions != intact:
            text = "modified the predictions, which other metrics also read; it must modify copies only."
            self.laws.broken(READS_ONLY, f"{named(metric, 'measure')} {text}")
        self._compare(metric, intact, scores)
        try:
            _, _, (single, _) = self._score_again(intact[:1])
        except Exception:  # the metric needs several examples
            single = scores[1]
        if not _same([single], scores[1:2]):
            self.laws.broken(
                PARTS_ALONE,
                f"{named(metric, 'combine')} gave {single:.6g} for an example measured alone and {scores[1]:.6g} for "
                "the same example measured with others; a score must depend only on its own examples.",
            )
        self._check_resamples(metric, parts)
        self._check_unknown(intact, scores[0])

    def _score_again(self, predictions: Sequence[Prediction]) -> tuple[Metric[Any], list[Any], list[float]]:
        """Return a metric, its statistics after a JSON round trip, and the scores of all predictions and of each."""
        restore(self.seeded)
        metric = self.build().prepare(self.info, References(predictions))
        parts = json.loads(json.dumps([*metric.measure(predictions)]))
        return metric, parts, [metric.combine(parts), *(metric.combine([part]) for part in parts)]

    def _compare(self, metric: Metric[Any], predictions: Sequence[Prediction], scores: Sequence[float]) -> None:
        """Compare scores with the scores of copies in reverse order, with permuted ids."""

        def same(copies: list[Prediction]) -> bool:
            _, _, (whole, *each) = self._score_again(copies[::-1])
            return _same(scores, [whole, *each[::-1]])

        copied = [*deepcopy(predictions)]
        if NUMBERS not in self.laws.exempt:
            copied = [replace(prediction, id=copied[place - 1].id) for place, prediction in enumerate(copied)]
        if same(copied):
            return
        law, cause = NUMBERS, "with other ids"
        if not _same(scores, self._score_again(deepcopy(predictions))[2]):
            law, cause = AGAIN, "when copies are measured (time, chance, identity or earlier calls matter)"
        elif not same([*deepcopy(predictions)]):
            law, cause = ORDER, "in another order"
        text = f"scores {len(predictions)} examples differently {cause}; scores must depend only on the examples."
        self.laws.broken(law, f"{named(metric, 'measure')} {text}")

    def _check_stored(self, predictions: Sequence[Prediction]) -> None:
        """Raise PluginError if statistics can be scored, but not after they are stored as JSON."""
        try:
            metric = self.build().prepare(self.info, References(predictions))
            parts = [*metric.measure(predictions)]
            metric.combine(parts)
            stored = json.loads(json.dumps(parts))
        except Exception:  # an unrelated error
            return
        try:
            metric.combine(stored)
        except Exception as error:
            text = "gave statistics that `combine` cannot score after being stored as JSON, where keys are strings"
            self.laws.broken(STORED, f"{named(metric, 'measure')} {text} ({type(error).__name__}: {error}).")

    def _check_resamples(self, metric: Metric[Any], parts: Sequence[Any]) -> None:
        """Raise PluginError unless each bootstrap sample has the same score as its examples."""
        import numpy as np

        number = len(parts)
        counts = np.array([[1] * number, [2] + [place % 2 for place in range(1, number)]], dtype=np.uint16)
        scores = metric.resample(parts, counts)
        if len(scores) != len(counts):
            text = f"gave {len(scores)} scores for {len(counts)} bootstrap samples."
            self.laws.broken(RESAMPLES, f"{named(metric, 'resample')} {text}")
        for row, score in zip(counts.tolist(), scores, strict=False):
            wanted = metric.combine([part for part, times in zip(parts, row, strict=True) for _ in range(times)])
            if not _same([score], [wanted]):
                text = f"gave {score:.6g} for a bootstrap sample, but `combine` gives {wanted:.6g}; "
                text += "both must count an example as often as it was drawn."
                self.laws.broken(RESAMPLES, f"{named(metric, 'resample')} {text}")

    def _check_unknown(self, predictions: Sequence[Prediction], score: float) -> None:
        """Raise PluginError if a metric returns a number although log-probabilities are unknown."""
        hypotheses = [hypothesis for prediction in predictions for hypothesis in prediction.hypotheses]
        if not hypotheses or any(y.log_prob is not None for y in hypotheses) or not math.isfinite(score):
            return
        completed = [
            replace(prediction, hypotheses=[replace(y, log_prob=-5.0 - place) for y in prediction.hypotheses])
            for place, prediction in enumerate(predictions)
        ]
        metric, _, (other, *_) = self._score_again(completed)
        if not _same([score], [other]):
            text = f"scores predictions {score:.6g} although their `log_prob` is unknown (None)"
            self.laws.broken(UNKNOWN, f"{named(metric, 'measure')} {text}; the score must be NaN.")


def _same(scores: Sequence[float], others: Sequence[float], tolerance: float = TOLERANCE) -> bool:
    return len(scores) == len(others) and all(
        a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-3)
        for a, b in zip(scores, others, strict=True)
    )


LOOK = MetricLook  #: the second look at metrics
