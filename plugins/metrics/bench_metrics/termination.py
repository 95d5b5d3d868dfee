"""Non-termination: the share of outputs truncated by a limit (Welleck et al., 2020, arXiv:2002.02492)."""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from math import nan
from typing import NoReturn

from bench_core import Additive, Metric, Prediction, SuiteError
from bench_metrics.plugin import DistinctNonTerminatedConfig, NonTerminationConfig


class NonTermination(Additive[int]):
    """r_L, the share of examples whose first hypothesis has no EOS among its first L tokens."""

    label = "Non-termination"
    better, unit, scale, factor = -1, "%", "share", 100.0

    def __init__(self, config: NonTerminationConfig) -> None:
        super().__init__(config)
        self.signature = _signature(config.limit)

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[int]:
        """Yield 1 for each example that did not terminate, otherwise 0; raise SuiteError if this is unknown."""
        return (int(not ended) for ended in terminations(predictions, self.config.limit))


class DistinctNonTerminated(Metric[str | None]):
    """The share of distinct outputs, truncated to L tokens, among outputs that did not terminate.

    It is low if many outputs end in the same few loops; NaN if all outputs terminate. Resampling repeats examples,
    so intervals are biased downwards.
    """

    label = "Distinct non-terminated"
    better, unit = 0, "%"
    may_be_nan = True

    def __init__(self, config: DistinctNonTerminatedConfig) -> None:
        super().__init__(config)
        self.signature = _signature(config.limit)

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[str | None]:
        """Yield a digest of each output that did not terminate, and None for each output that did."""
        limit: int | None = self.config.limit
        for prediction, ended in zip(predictions, terminations(predictions, limit), strict=True):
            yield None if ended else _digest(prediction.hypotheses[0].tokens[:limit])

    def combine(self, parts: Sequence[str | None]) -> float:
        endless = [part for part in parts if part is not None]
        return 100 * len(set(endless)) / len(endless) if endless else nan


def terminations(predictions: Sequence[Prediction], limit: int | None) -> Iterator[bool]:
    """Yield for each example whether EOS is among the first `limit` tokens of its first hypothesis.

    Without a limit, yields whether the hypothesis is finished. Raises SuiteError if it is unfinished below `limit`.
    """
    for prediction in predictions:
        first = prediction.hypotheses[0]
        if not first.finished and len(first.tokens) < (limit or 0):
            _refuse(predictions, limit or 0)
        yield first.finished and (limit is None or len(first.tokens) < limit)


def _refuse(predictions: Sequence[Prediction], limit: int) -> NoReturn:
    """Raise SuiteError with the number of outputs that decoding left unfinished below the limit."""
    first = (prediction.hypotheses[0] for prediction in predictions)
    short = [len(h.tokens) for h in first if not h.finished and len(h.tokens) < limit]
    raise SuiteError(
        f"whether outputs terminate within {limit} tokens is unknown: {len(short)} of {len(predictions)} outputs "
        f"were left unfinished below that limit, the first at {short[0]} tokens. Decode with "
        f"`max_tokens: {limit}` or more, or set the metric's `limit` to {min(short)} or less."
    )


def _signature(limit: int | None) -> str:
    return f"limit:{limit or 'of decoding'}|hypothesis:first"


def _digest(tokens: list[int]) -> str:
    return sha256(json.dumps(tokens).encode()).hexdigest()[:32]
