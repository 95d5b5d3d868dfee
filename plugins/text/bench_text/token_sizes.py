"""The numbers of bytes and characters of raw text that tokens represent."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench_text.ragged import Numbers
from bench_text.raw_text import BREAK, characters, utf8

UNKNOWN_SIZE = -1  #: size of a text that its tokens do not represent exactly


@dataclass(frozen=True)
class TokenSizes:
    """The sizes of M tokens of R texts."""

    sizes: Numbers  # int64 [M, 2], bytes and characters
    exact: Numbers  # bool [M], whether the text's tokens represent it exactly

    @classmethod
    def of(cls, texts: Iterable[str], pieces: Iterable[Sequence[bytes]], stop: bool) -> TokenSizes:
        """Measure the tokens of texts, with EOS after each text if `stop`."""
        sizes, exact = array("q"), array("b")
        for text, tokens in zip(texts, pieces, strict=True):
            is_exact = b"".join(tokens) == utf8(text)
            for piece in [*tokens, BREAK] if stop else tokens:
                sizes.extend((len(piece), characters(piece)))
                exact.append(is_exact)
        return cls(np.array(sizes, np.int64).reshape(-1, 2), np.array(exact, bool))

    def sums(self, edges: Numbers) -> Numbers:
        """Return the total sizes [W, 2] of tokens between ascending edges [W + 1]; UNKNOWN_SIZE if any is inexact."""
        sums = np.diff(np.concatenate([np.zeros((1, 2), np.int64), self.sizes.cumsum(0)])[edges], axis=0)
        exact = np.diff(np.concatenate([[0], self.exact.cumsum()])[edges]) == np.diff(edges)
        return np.where(exact[:, None], sums, UNKNOWN_SIZE)
