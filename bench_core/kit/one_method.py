"""Metrics and decoders whose single method is implemented by their Config."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, isfinite, nan
from numbers import Real
from typing import TYPE_CHECKING

from bench_core.decoder import Decoder
from bench_core.errors import Fault, PluginError
from bench_core.generation_loop import generate
from bench_core.metric import Additive
from bench_core.model import Stepper

if TYPE_CHECKING:
    from torch import Tensor

    from bench_core.data import Batch, Hypothesis, Prediction
    from bench_core.kit.configs import ExampleMetricConfig, StepDecoderConfig
    from bench_core.random_numbers import Rng


class ExampleMean(Additive[list[float]]):
    """The weighted mean of the Config's `score` over examples; NaN if the weights sum to 0."""

    config: ExampleMetricConfig

    def __init__(self, config: ExampleMetricConfig) -> None:
        super().__init__(config)
        self.better, self.unit = config.better, config.unit  # type: ignore[misc]

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[list[float]]:
        return ([prediction.weight * self._score(prediction), prediction.weight] for prediction in predictions)

    def from_sums(self, sums: Sequence[float], examples: int) -> float:
        return (100 if self.unit == "%" else 1) * sums[0] / sums[1] if examples and sums[1] else nan

    def _score(self, prediction: Prediction) -> float:
        score = self.config.score(prediction.texts[0], prediction.references)
        if not isinstance(score, Real) or not isfinite(score):
            raise PluginError(
                f"{type(self.config).__name__}.score returned {score!r} for example {prediction.id}. It must return "
                "a finite number."
            )
        return float(score)


class StepDecoder(Decoder[Stepper]):
    """Decodes with the Config's `choose`, called once per step for all unfinished rows."""

    config: StepDecoderConfig

    def decode(self, model: Stepper, batch: Batch, rng: Rng) -> list[list[Hypothesis]]:
        def pick(log_probs: Tensor, ids: Tensor, step: int) -> Tensor:
            actions = self.config.choose(log_probs, rng.uniform(ids, step))
            self._check(actions, log_probs, step)
            return actions

        return [[hypothesis] for hypothesis in generate(model, batch, pick, self.config.max_tokens)]

    def _check(self, actions: Tensor, log_probs: Tensor, step: int) -> None:
        """Raise PluginError unless each row has an action with nonzero probability."""
        if wrong := _fault(actions, log_probs, step):
            raise PluginError(
                f"{type(self.config).__name__}.choose {wrong}. It must return a possible action for each row, "
                "int64 [M]."
            )


def _fault(actions: Tensor, log_probs: Tensor, step: int) -> Fault:
    """Return what is wrong with chosen actions; empty if they are valid."""
    number, size = log_probs.shape
    form = [str(getattr(actions, "dtype", "")), [*getattr(actions, "shape", ())]]
    if form != ["torch.int64", [number]]:
        return f"returned {f'a {form[0]} {form[1]}' if form[0] else repr(actions)} at step {step + 1}"
    if not bool(((actions >= 0) & (actions < size)).all()):
        return f"returned an action other than 0 to {size - 1} at step {step + 1}"
    if bool((log_probs.gather(1, actions[:, None]) == -inf).any()):
        return f"chose an action of probability 0 at step {step + 1}"
    return ""
