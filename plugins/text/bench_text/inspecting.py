"""What can be said of texts as tokens before a vocabulary is learned: whether any has enough of them; no torch."""

from __future__ import annotations

from math import inf
from pathlib import Path

from bench_text.given_tokens import model_of
from bench_text.merges import read_codes, read_known
from bench_text.pretrained import Numbered
from bench_text.raw_text import utf8
from bench_text.settings import Codes, Pretrained, SentencePiece

ENCODED = 1_000_000  #: characters that are encoded to count their tokens


def check_tokenizer(settings: object, data: Path) -> None:
    """Raise DataError if the files of a tokenizer cannot be read, or it does not say how texts end."""
    if isinstance(settings, Pretrained):
        Numbered.of(settings, data)
    if isinstance(settings, SentencePiece):
        model_of(settings)
    if isinstance(settings, Codes):
        read_codes(settings.codes)
        if settings.vocabulary:
            read_known(settings.vocabulary, settings.threshold)


class Lengths:
    """Bounds of the tokens of texts, which are exact for words and characters."""

    def __init__(self, settings: object, data: Path) -> None:
        self.kind = getattr(settings, "kind", "")
        self.numbered = Numbered.of(settings, data) if isinstance(settings, Pretrained) else None
        self.left = ENCODED
        self.most = 0.0  #: tokens that any text may have
        self.least = inf  #: tokens that every text has

    def add(self, text: str) -> tuple[int, float]:
        """Return the fewest and the most tokens that a text may have, without EOS, and remember the extremes."""
        least, most = self._of(text)
        self.most, self.least = max(self.most, most), min(self.least, least)
        return least, most

    def _of(self, text: str) -> tuple[int, float]:
        words = len(text.split())
        if self.kind == "word":
            return words, words
        if self.kind == "char":
            return len(text), len(text)
        if self.numbered and len(text) <= self.left:
            self.left -= len(text)
            number = len(next(self.numbered.encode([text])))
            return number, number
        if self.kind in ("bpe", "codes"):
            return words, len(utf8(text))
        return min(words, 1), inf
