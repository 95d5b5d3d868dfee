"""How many bytes and characters of raw text each token stands for."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench_text.ragged import Numbers
from bench_text.raw_text import BREAK, characters, utf8

NONE = -1  #: in place of the size of a text that its tokens do not spell


@dataclass(frozen=True)
class TokenSizes:
    """The sizes of M tokens of R texts."""

    sizes: Numbers  # int64 [M, 2], in bytes and in characters
    exact: Numbers  # bool [M], whether the tokens of its text spell that

    @classmethod
    def of(cls, texts: Iterable[str], pieces: Iterable[Sequence[bytes]], stop: bool) -> TokenSizes:
        """Measure the tokens of texts, with a stop after each text if `stop`."""
        sizes, exact = array("q"), array("b")
        for text, own in zip(texts, pieces, strict=True):
            same = b"".join(own) == utf8(text)
            for piece in [*own, BREAK] if stop else own:
                sizes.extend((len(piece), characters(piece)))
                exact.append(same)
        return cls(np.array(sizes, np.int64).reshape(-1, 2), np.array(exact, bool))

    def sums(self, edges: Numbers) -> Numbers:
        """Return the sizes of the tokens between edges [W + 1], which ascend, NONE if any is not exact: [W, 2]."""
        sums = np.diff(np.concatenate([np.zeros((1, 2), np.int64), self.sizes.cumsum(0)])[edges], axis=0)
        exact = np.diff(np.concatenate([[0], self.exact.cumsum()])[edges]) == np.diff(edges)
        return np.where(exact[:, None], sums, NONE)
