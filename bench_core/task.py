"""The interface of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from bench_core.data import Batch, Facts, Purpose
    from bench_core.noise import Noise

Split: TypeAlias = str  #: "train", "valid", "test", and what a task has besides


@dataclass(frozen=True)
class Size:
    """The most that a batch may hold; a single longer example is a batch of its own."""

    number: int
    unit: Literal["rows", "tokens"] = "rows"


class Task(ABC):
    """Examples of one problem; built as `Class(config, folder)`, where `folder` is what `prepare` filled."""

    def __init__(self, config: Any, folder: Path) -> None:
        self.config, self.folder = config, folder

    @abstractmethod
    def prepare(self, data: Path) -> Facts:
        """Leave in the folder all of `data` that is read later; raise DataError naming the file that is wrong."""

    @abstractmethod
    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        """Yield one epoch of the rows for `purpose`, at most `size` a batch; in file order, or shuffled by `noise`.

        To train, shuffled rows of like length may share a batch. For other purposes, a shuffled epoch is a random
        order of single rows, so that its first n are a fair sample.
        """

    @abstractmethod
    def text(self, tokens: list[int]) -> str:
        """Turn target tokens into the text that metrics compare."""

    def prompt(self, tokens: list[int]) -> str:
        """Turn the prefix of an opening, without its stop, into text; by default as `text` does."""
        return self.text(tokens)

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the text that the target of each example is made from, by its id; by default there is none."""
        return {}

    @abstractmethod
    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the accepted texts of every example, by its id."""
