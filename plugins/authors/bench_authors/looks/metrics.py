"""Measures a few outcomes again: a score must not depend on their order, ids or identity, on time or on chance."""

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
from bench_core.data import Outcome, TaskInfo
from bench_core.metric import Metric
from bench_core.storage.outcomes import References

ROWS = 8  #: outcomes that are measured again
COSTLY = 2.0  #: seconds of a look after which a process does not look at the same metric again
ROOM = 1e-9  #: share by which rounding may change a score
ROOM_OF_ALL = 1e-6  #: the same for all examples of a stage, which may be added up in single precision

NUMBERS, ORDER = "numbers_of_examples_do_not_matter", "the_order_of_outcomes_does_not_matter"
AGAIN, PARTS_ALONE = "measured_again_it_is_the_same", "any_choice_of_parts_has_a_score"
RESAMPLES, STORED = "a_resample_scores_as_its_parts_do", "parts_survive_being_stored"
READS_ONLY, UNKNOWN = "outcomes_are_left_as_they_are", "what_is_unknown_is_no_number"

_costly: set[str] = set()  # Configs of metrics that this process has looked at, and does not look at again


@dataclass(frozen=True)
class MetricLook:
    """Measures a few outcomes again with newly built metrics."""

    build: Callable[[], Metric[Any]]
    info: TaskInfo
    laws: Laws
    seeded: States = field(default_factory=generators)  # so that what a metric draws from them is the same each time

    def at_outcomes(self, outcomes: Sequence[Outcome], salt: str) -> None:
        """Raise PluginError if some outcomes score differently in another order, as copies, or with other ids.

        Bootstrap samples must also score as their examples do. A metric that cannot score so few is skipped.
        """
        number = len(outcomes)
        drawn = {crc32(f"{salt} {turn}".encode()) % number for turn in range(4 * ROWS)} if number else set()
        kept = [outcomes[place] for place in sorted([*drawn][:ROWS])]
        config = repr(self.build().config)
        if not kept or config in _costly:
            return
        began = time.monotonic()
        try:
            self._at(kept)
        except BrokenLaw:
            raise
        except Exception:  # it cannot score these outcomes without the others
            return
        finally:
            restore(self.seeded)  # what follows draws as if nobody had looked
            if time.monotonic() - began > COSTLY:
                _costly.add(config)

    def at_parts(self, metric: Metric[Any], parts: Sequence[Any]) -> None:
        """Raise PluginError if all statistics of a stage have another score in the opposite order.

        A metric that is costly to look at, or whose score takes over half of that time, is skipped.
        """
        if len(parts) <= ROWS or repr(metric.config) in _costly:
            return
        scores, whole, began = list[float](), [*parts], time.process_time()
        for several in (whole, whole[::-1]):
            restore(self.seeded)
            scores.append(metric.combine(several))
            if time.process_time() - began > COSTLY / 2:
                break
        restore(self.seeded)
        if not _same(scores[:1], scores[-1:], ROOM_OF_ALL):
            text = f"scores {len(parts)} statistics {scores[0]:.6g}, and {scores[1]:.6g} in the opposite order."
            self.laws.broken(ORDER, f"{named(metric, 'combine')} {text}")

    def _at(self, kept: Sequence[Outcome]) -> None:
        intact = deepcopy([*kept])
        try:
            metric, parts, scores = self._scored(kept)
        except Exception:  # it may need more examples, or cannot read its own stored statistics
            self._check_stored(intact)
            return
        if kept != intact:
            text = "changed the outcomes that it measures, which other metrics read, too; it must change copies only."
            self.laws.broken(READS_ONLY, f"{named(metric, 'measure')} {text}")
        self._compare(metric, intact, scores)
        try:
            _, _, (alone, _) = self._scored(intact[:1])
        except Exception:  # it needs several examples
            alone = scores[1]
        if not _same([alone], scores[1:2]):
            self.laws.broken(
                PARTS_ALONE,
                f"{named(metric, 'combine')} gave {alone:.6g} for an example measured alone and {scores[1]:.6g} for "
                "the same example measured with others; a score must depend on its own examples alone.",
            )
        self._check_resamples(metric, parts)
        self._check_unknown(intact, scores[0])

    def _scored(self, outcomes: Sequence[Outcome]) -> tuple[Metric[Any], list[Any], list[float]]:
        """Return a metric, its statistics of outcomes as JSON has them, and the scores of all and of each."""
        restore(self.seeded)
        metric = self.build().prepare(self.info, References(outcomes))
        parts = json.loads(json.dumps([*metric.measure(outcomes)]))
        return metric, parts, [metric.combine(parts), *(metric.combine([part]) for part in parts)]

    def _compare(self, metric: Metric[Any], outcomes: Sequence[Outcome], scores: Sequence[float]) -> None:
        """Measure copies of outcomes backwards, each with the number of another."""

        def same(copies: list[Outcome]) -> bool:
            _, _, (whole, *each) = self._scored(copies[::-1])
            return _same(scores, [whole, *each[::-1]])

        own = [*deepcopy(outcomes)]
        if NUMBERS not in self.laws.exempt:
            own = [replace(one, id=own[place - 1].id) for place, one in enumerate(own)]
        if same(own):
            return
        law, cause = NUMBERS, "with other ids"
        if not _same(scores, self._scored(deepcopy(outcomes))[2]):
            law, cause = AGAIN, "when copies are measured: by time, chance, identity, or earlier calls"
        elif not same([*deepcopy(outcomes)]):
            law, cause = ORDER, "in another order"
        text = f"scores the same {len(outcomes)} examples differently {cause}; scores must depend on examples alone."
        self.laws.broken(law, f"{named(metric, 'measure')} {text}")

    def _check_stored(self, outcomes: Sequence[Outcome]) -> None:
        """Raise PluginError if statistics have a score, but none after they are stored as JSON."""
        try:
            metric = self.build().prepare(self.info, References(outcomes))
            parts = [*metric.measure(outcomes)]
            metric.combine(parts)
            stored = json.loads(json.dumps(parts))
        except Exception:  # an error that has another reason
            return
        try:
            metric.combine(stored)
        except Exception as error:
            text = "gave statistics that `combine` cannot score once they are stored as JSON, where keys are strings"
            self.laws.broken(STORED, f"{named(metric, 'measure')} {text} ({type(error).__name__}: {error}).")

    def _check_resamples(self, metric: Metric[Any], parts: Sequence[Any]) -> None:
        """Raise PluginError unless bootstrap samples score as their examples do."""
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
                text = f"gave {score:.6g} for a bootstrap sample for which `combine` gives {wanted:.6g}; "
                text += "both must count each example as often as it was drawn."
                self.laws.broken(RESAMPLES, f"{named(metric, 'resample')} {text}")

    def _check_unknown(self, outcomes: Sequence[Outcome], score: float) -> None:
        """Raise PluginError if a metric treats unknown log-probabilities as numbers."""
        hypotheses = [one for outcome in outcomes for one in outcome.hypotheses]
        if not hypotheses or any(one.log_prob is not None for one in hypotheses) or not math.isfinite(score):
            return
        told = [
            replace(one, hypotheses=[replace(each, log_prob=-5.0 - place) for each in one.hypotheses])
            for place, one in enumerate(outcomes)
        ]
        metric, _, (other, *_) = self._scored(told)
        if not _same([score], [other]):
            text = f"scores outcomes {score:.6g} by `log_prob`, which is unknown (None); the score must be NaN."
            self.laws.broken(UNKNOWN, f"{named(metric, 'measure')} {text}")


def _same(scores: Sequence[float], others: Sequence[float], room: float = ROOM) -> bool:
    return len(scores) == len(others) and all(
        one == other
        or (math.isnan(one) and math.isnan(other))
        or abs(one - other) <= room * max(abs(one), abs(other), 1e-3)
        for one, other in zip(scores, others, strict=True)
    )


LOOK = MetricLook  #: at what metrics measure
