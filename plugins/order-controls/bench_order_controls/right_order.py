"""The metric of right orders, computed from the actions of the first hypothesis."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from bench_core import Additive, Prediction, SuiteError, TaskInfo
from bench_indigo.api import orders
from bench_order_controls.needs import RULES, Rule, is_right
from bench_order_controls.plugin import RightOrderConfig


class RightOrder(Additive[float]):
    """Share of outputs with as many tokens as their target, generated in a right order of the target's places.

    Whether the tokens are correct does not matter.
    """

    label, better, unit, factor, scale = "Right order", 1, "%", 100.0, "share"

    def __init__(self, config: RightOrderConfig, rule: Rule | None = None) -> None:
        super().__init__(config)
        self.rule = rule

    def prepare(self, info: TaskInfo, references: Mapping[int, Sequence[str]]) -> Self:
        """Find the rule of the task; raise SuiteError if its right orders are unknown."""
        if "control" not in info.extras:
            raise SuiteError("right-order needs a task whose right orders are known. Leave it out for this task.")
        return type(self)(self.config, RULES[info.extras["control"]])

    def measure(self, predictions: Sequence[Prediction]) -> Iterator[float]:
        """Yield 1 or 0 for each output; raise SuiteError if an order is unknown."""
        return map(self._is_right, predictions, orders(predictions))

    def _is_right(self, prediction: Prediction, order: Sequence[int]) -> float:
        assert self.rule is not None
        target = prediction.references[0].split()
        return float(len(order) == len(target) and is_right(self.rule(prediction.prompt, target), order))
