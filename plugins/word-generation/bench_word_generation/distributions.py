"""The empirical word distribution of each split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_core import Split, SuiteError, TaskInfo
from bench_text.api import SPLITS

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Distributions:
    """Word types and their counts in each split."""

    words: Sequence[str]
    counts: Mapping[Split, NDArray[np.int64]]  # [W] per split

    @classmethod
    def of(cls, info: TaskInfo, part: str) -> Distributions:
        """Read the distributions from a task's info; raise SuiteError if it has none."""
        try:
            words, word_counts = info.extras["words"], info.extras["word_counts"]
            counts = {split: np.array(word_counts[split], np.int64) for split in SPLITS}
        except (KeyError, TypeError):
            raise SuiteError(
                f"{part} needs a task with words and their counts, such as word-generation. Choose such a task, or "
                "list the pair under `skip:`."
            ) from None
        return cls(words, counts)

    def within(self, splits: str) -> NDArray[np.int64]:
        """Return the counts [W] in a split, or in `all` splits."""
        return np.sum([*self.counts.values()], 0) if splits == "all" else self.counts[splits]

    def probs(self, split: Split) -> Floats:
        """Return the probability of each type [W]."""
        counts = self.counts[split].astype(np.float64)
        probs: Floats = counts / counts.sum()
        return probs

    def letter_log_probs(self) -> Floats:
        """Return ln P(w) of each type [W] if its letters and EOS are drawn independently, by their counts in train.

        Each count is increased by one, so that no letter of a word has probability 0.
        """
        text = "".join([f"{word}\0" for word in self.words])  # 0 is EOS
        symbols, places = np.unique(np.frombuffer(text.encode("utf-32-le"), np.uint32), return_inverse=True)
        rows = np.repeat(np.arange(len(self.words)), [len(word) + 1 for word in self.words])
        counts = 1 + np.bincount(places, self.counts["train"][rows], len(symbols))
        return np.bincount(rows, np.log(counts / counts.sum())[places], len(self.words)).astype(np.float64)

    def count_scored(self, example: int) -> int:
        """Return how many types are scored with an example: the types of its split and, for test, also of train."""
        split = SPLITS[min(example // len(self.words), len(SPLITS) - 1)]
        counts = self.counts[split] + (self.counts["train"] if split == "test" else 0)
        return int((counts > 0).sum())

    def types(self, splits: str) -> frozenset[str]:
        """Return the words that occur in a split, or in `all` splits."""
        return frozenset(self.words[place] for place in self.within(splits).nonzero()[0].tolist())
