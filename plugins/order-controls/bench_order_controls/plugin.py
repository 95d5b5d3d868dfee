"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from typing import ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from bench_core import MetricConfig, Source, TaskConfig, hookimpl
from bench_text.api import Words


class OrderControlConfig(TaskConfig):
    """Settings shared by the controls, whose training targets have all lengths from `least` to `most`."""

    inspector = "bench_order_controls.inspecting:inspect"
    tokenizer: ClassVar[Words] = Words.model_construct()  #: of sources and targets
    shared: ClassVar[bool] = False  #: whether sources and targets share a vocabulary
    longest: ClassVar[None] = None  #: no targets are excluded

    least: int = Field(2, ge=2)  #: minimum tokens of a training target
    most: int = Field(6, ge=2, le=24)  #: maximum tokens of a training target, and length of all other targets
    examples: PositiveInt = 50_000  #: training examples
    held_out: PositiveInt = 500  #: examples of the validation split, and of the test split
    seed: NonNegativeInt = 0  #: seed of the examples

    @model_validator(mode="after")
    def _lengths_are_in_order(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"`least` ({self.least}) must be at most `most` ({self.most}). Change one of them")
        return self

    def lookups(self) -> int:
        """Return the number of table entries that the longest targets look up; 0 if unknown."""
        return 0


class LatinFoldsConfig(OrderControlConfig):
    """Fold digits by a random Latin square, s_i = table[c_i, s_(i+1)], or from the left: s_(i-1)."""

    name, target = "latin-folds", "bench_order_controls.folds:LatinFolds"
    source = Source.TOKENS

    direction: Literal["suffix", "prefix", "either"] = "suffix"  #: from the right, from the left, or by example
    digits: int = Field(8, ge=2, le=10)  #: number of digits, the side of the square

    def lookups(self) -> int:
        return self.digits**2 * (self.most - 1)


class StarGraphsConfig(OrderControlConfig):
    """Find the path from the centre of a star graph to a goal at the end of one arm."""

    name, target = "star-graphs", "bench_order_controls.stars:StarGraphs"
    source = Source.GRID

    arms: int = Field(5, ge=2, le=20)  #: arms of a graph, each with as many nodes as the target has tokens

    @property
    def nodes(self) -> int:
        """Return the number of node names."""
        return self.arms * self.most + 1

    def lookups(self) -> int:
        return self.nodes**2


class SudokuConfig(OrderControlConfig):
    """Fill the empty cells of a 4x4 sudoku that can be solved by excluding values."""

    name, target = "small-sudoku", "bench_order_controls.sudoku:SmallSudoku"
    source = Source.TOKENS

    most: int = Field(11, ge=2, le=12)  #: maximum empty cells in training, and number of empty cells elsewhere


class RightOrderConfig(MetricConfig):
    """Share of outputs that were generated in a right order of their targets."""

    name, target = "right-order", "bench_order_controls.right_order:RightOrder"
    range = 0, 100

    def refusal(self, task: TaskConfig) -> str | None:
        if isinstance(task, OrderControlConfig):
            return None
        names = ", ".join(config.name for config in bench_tasks())
        return f"needs a task whose right orders are known: {names}"


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the controls."""
    return [LatinFoldsConfig, StarGraphsConfig, SudokuConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metric of right orders."""
    return [RightOrderConfig]
