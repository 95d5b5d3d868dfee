"""Checks tokenizers and text lengths before a vocabulary is learned; does not import torch."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import cast

from bench_text.encoder import UNREADABLE, join
from bench_text.given_tokens import read_model
from bench_text.merges import read_codes, read_vocabulary
from bench_text.pretrained import PretrainedTokenizer
from bench_text.raw_text import utf8
from bench_text.settings import Characters, Codes, Learned, Pretrained, SentencePiece, Words
from bench_text.tokens import learn

MAX_ENCODED_CHARS = 1_000_000  #: maximum characters to encode when counting tokens or checking round trips


def check_tokenizer(settings: object, data: Path) -> None:
    """Raise DataError if the files of a tokenizer cannot be read or do not define EOS."""
    if isinstance(settings, Pretrained):
        PretrainedTokenizer.of(settings, data)
    if isinstance(settings, SentencePiece):
        read_model(settings)
    if isinstance(settings, Codes):
        read_codes(settings.codes)
        if settings.vocabulary:
            read_vocabulary(settings.vocabulary, settings.threshold)


class Writing:
    """Determines which references of a task its tokens can represent, given its training texts."""

    def __init__(self, settings: object, data: Path) -> None:
        self.settings, self.data = settings, data
        self.known = Counter[str]()  # words or characters of training texts
        self.examples: dict[str, list[tuple[str, Sequence[str]]]] = {}  # target and references, by split
        self.left = MAX_ENCODED_CHARS

    def learn_from(self, *texts: str | None) -> None:
        """Count the words or characters of texts; byte pairs need no counts, as they represent every text."""
        for text in filter(None, texts):
            if isinstance(self.settings, Words):
                self.known.update(text.split())
            elif isinstance(self.settings, Codes):
                self.known.update(text.strip("\r\n ").split(" "))
            elif isinstance(self.settings, Characters):
                self.known.update(text)

    def add(self, split: str, target: str, references: Sequence[str]) -> None:
        """Store an example, unless MAX_ENCODED_CHARS is exceeded."""
        self.left -= len(target)
        if self.left >= 0:
            self.examples.setdefault(split, []).append((target, references or [target]))

    @property
    def is_partial(self) -> bool:
        """Whether examples were omitted because MAX_ENCODED_CHARS was exceeded."""
        return self.left < 0

    def lost(self) -> Mapping[str, tuple[int, int]]:
        """Return, for each split, the number of references, and the number that encoding changes."""
        if not self.examples:
            return {}
        round_trip = self._round_trip()
        return {
            split: (
                len(rows),
                sum(text not in references for text, (_, references) in zip(round_trip(rows), rows, strict=True)),
            )
            for split, rows in self.examples.items()
        }

    def _round_trip(self) -> Callable[[Sequence[tuple[str, Sequence[str]]]], Iterator[str]]:
        if isinstance(self.settings, Pretrained):
            tokenizer = PretrainedTokenizer.of(self.settings, self.data)
            return lambda rows: (
                tokenizer.text(row, UNREADABLE) for row in tokenizer.encode([target for target, _ in rows])
            )
        settings = cast(Learned, self.settings)
        words = list(self.known) if isinstance(settings, Codes) else self.known.elements()  # with repetitions
        encoder = learn(settings, cast(Sequence[str], words), ())
        names = encoder.vocabulary
        return lambda rows: (
            join(settings.kind, [names[token] for token in row])
            for row in encoder.encode([target for target, _ in rows])
        )


class Lengths:
    """Bounds on the number of tokens in texts; exact for words and characters."""

    def __init__(self, settings: object, data: Path) -> None:
        self.kind = getattr(settings, "kind", "")
        self.pretrained = PretrainedTokenizer.of(settings, data) if isinstance(settings, Pretrained) else None
        self.left = MAX_ENCODED_CHARS
        self.most = 0.0  #: upper bound for all texts
        self.least = inf  #: lower bound for all texts

    def add(self, text: str) -> tuple[int, float]:
        """Return lower and upper bounds on the number of tokens in a text, without EOS; update the overall bounds."""
        least, most = self._of(text)
        self.most, self.least = max(self.most, most), min(self.least, least)
        return least, most

    def _of(self, text: str) -> tuple[int, float]:
        words = len(text.split())
        if self.kind == "word":
            return words, words
        if self.kind == "char":
            return len(text), len(text)
        if self.pretrained and len(text) <= self.left:
            self.left -= len(text)
            number = len(next(self.pretrained.encode([text])))
            return number, number
        if self.kind in ("bpe", "codes"):
            return words, len(utf8(text))
        return min(words, 1), inf
