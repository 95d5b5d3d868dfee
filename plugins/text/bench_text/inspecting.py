"""What can be said of texts as tokens before a vocabulary is learned: whether any has enough of them; no torch."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import cast

from bench_text.encoder import UNREADABLE, join
from bench_text.given_tokens import read_model
from bench_text.merges import read_codes, read_known
from bench_text.pretrained import Numbered
from bench_text.raw_text import utf8
from bench_text.settings import Characters, Codes, Learned, Pretrained, SentencePiece, Words
from bench_text.tokens import learn

ENCODED = 1_000_000  #: characters that are encoded to count their tokens, or to see whether these can write them


def check_tokenizer(settings: object, data: Path) -> None:
    """Raise DataError if the files of a tokenizer cannot be read, or it does not say how texts end."""
    if isinstance(settings, Pretrained):
        Numbered.of(settings, data)
    if isinstance(settings, SentencePiece):
        read_model(settings)
    if isinstance(settings, Codes):
        read_codes(settings.codes)
        if settings.vocabulary:
            read_known(settings.vocabulary, settings.threshold)


class Writing:
    """Which references of a task its tokens can write, learned from its texts to train on."""

    def __init__(self, settings: object, data: Path) -> None:
        self.settings, self.data = settings, data
        self.known = Counter[str]()  # what is learned from: words or characters
        self.examples: dict[str, list[tuple[str, Sequence[str]]]] = {}  # by split: target and references
        self.left = ENCODED

    def learn_from(self, *texts: str | None) -> None:
        """Count what the vocabulary is learned from; byte pairs write the same whatever they learned."""
        for text in filter(None, texts):
            if isinstance(self.settings, Words):
                self.known.update(text.split())
            elif isinstance(self.settings, Codes):
                self.known.update(text.strip("\r\n ").split(" "))
            elif isinstance(self.settings, Characters):
                self.known.update(text)

    def add(self, split: str, target: str, references: Sequence[str]) -> None:
        """Remember an example, unless there are too many."""
        self.left -= len(target)
        if self.left >= 0:
            self.examples.setdefault(split, []).append((target, references or [target]))

    @property
    def is_partial(self) -> bool:
        """Return whether there were too many examples to remember."""
        return self.left < 0

    def lost(self) -> Mapping[str, tuple[int, int]]:
        """Return by split the number of references, and of those that tokens make another text."""
        if not self.examples:
            return {}
        read = self._reading()
        return {
            split: (len(rows), sum(text not in own for text, (_, own) in zip(read(rows), rows, strict=True)))
            for split, rows in self.examples.items()
        }

    def _reading(self) -> Callable[[Sequence[tuple[str, Sequence[str]]]], Iterator[str]]:
        if isinstance(self.settings, Pretrained):
            given = Numbered.of(self.settings, self.data)
            return lambda rows: (given.text(row, UNREADABLE) for row in given.encode([one for one, _ in rows]))
        settings = cast(Learned, self.settings)
        words = list(self.known) if isinstance(settings, Codes) else self.known.elements()  # whose numbers count
        encoder = learn(settings, cast(Sequence[str], words), ())
        names = encoder.vocabulary
        return lambda rows: (
            join(settings.kind, [names[token] for token in row]) for row in encoder.encode([one for one, _ in rows])
        )


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
