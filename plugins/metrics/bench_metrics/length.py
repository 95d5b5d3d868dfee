"""The length of outputs."""

from collections.abc import Iterator, Sequence
from math import nan

from bench_core import Additive, Metric, Prediction, SuiteError
from bench_metrics.plugin import LengthConfig, LengthDistanceConfig, LengthRatioConfig


class Length(Additive[int]):
    """Mean length of the first hypotheses or of the references, EOS included.

    An unfinished hypothesis counts without EOS, so its length is the limit that ended decoding. NaN without examples.
    """

    label = "Length"
    better, unit = 0, "tokens"

    def __init__(self, config: LengthConfig) -> None:
        super().__init__(config)
        self.signature = f"of:{config.of}|stop:included"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[int]:
        """Yield the length of each example; raise SuiteError if the length of a reference is unknown."""
        return map(output_length if self.config.of == "hypothesis" else reference_length, predictions)


class LengthRatio(Additive[Sequence[int]]):
    """Length of all first hypotheses divided by the length of all references, EOS included.

    Below 1, outputs are too short, so BLEU has a brevity penalty. NaN without examples.
    """

    label = "Length ratio"
    better, unit = 0, ""
    may_be_nan = True

    def __init__(self, config: LengthRatioConfig) -> None:
        super().__init__(config)
        self.signature = "stop:included|pooled"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[Sequence[int]]:
        """Yield both lengths of each example; raise SuiteError if the length of a reference is unknown."""
        return ([output_length(prediction), reference_length(prediction)] for prediction in predictions)

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        ours, theirs = sums or (0, 0)
        return ours / theirs if theirs else nan


class LengthDistance(Metric[list[int]]):
    """The 1-Wasserstein distance between the lengths of first hypotheses and of references, EOS included.

    It is the smallest mean change of length, in tokens, that turns one distribution into the other, regardless of
    which output belongs to which reference. NaN without examples.
    """

    label = "Length distance"
    better, unit = -1, "tokens"

    def __init__(self, config: LengthDistanceConfig) -> None:
        super().__init__(config)
        self.signature = "wasserstein:1|stop:included"

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[int]]:
        """Yield both lengths of each example; raise SuiteError if the length of a reference is unknown."""
        return ([output_length(prediction), reference_length(prediction)] for prediction in predictions)

    def combine(self, parts: Sequence[list[int]]) -> float:
        ours, theirs = (sorted(lengths) for lengths in zip(*parts, strict=True)) if parts else ([], [])
        return sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / len(parts) if parts else nan


def output_length(prediction: Prediction) -> int:
    """Return the length of the first hypothesis, including EOS if it is finished."""
    best = prediction.hypotheses[0]
    return len(best.tokens) + best.finished


def reference_length(prediction: Prediction) -> int:
    """Return the length of the reference, including EOS; raise SuiteError if it is unknown."""
    if not prediction.target_tokens:
        raise SuiteError(
            f"example {prediction.id} has no reference whose length could be counted. "
            "Leave this metric out for this task."
        )
    return prediction.target_tokens
