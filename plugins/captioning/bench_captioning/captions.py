"""Code shared by the caption metrics."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from typing import Any, TypeVar

from bench_captioning.ptb import SIGNATURE, tokenized
from bench_core import Outcome
from bench_metrics.api import TextMetric, blocks, compared

X = TypeVar("X")

SOME = 20_000  # examples for one start of Java


class CaptionMetric(TextMetric[X]):
    """A metric of the first text of each example, cut as the COCO evaluation cuts it."""

    better = 1

    def __init__(self, config: Any, about: str) -> None:
        """Describe it; `about` are settings that scores depend on."""
        super().__init__(config)
        self.signature = f"{about}|{SIGNATURE}|pycocoevalcap:{version('pycocoevalcap')}"

    def tokenized(self, captions: Sequence[str]) -> list[str]:
        """Return captions with spaces between tokens; raise SuiteError if the tokenizer fails."""
        return tokenized(captions, self.config.patience)

    def compared(self, outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[str]]]:
        """Yield the first text of each example and its references, as tokens with spaces between them."""
        for pairs in blocks(compared(outcomes), SOME):
            texts = self.tokenized([text for text, _ in pairs])
            yield from zip(texts, self.grouped([references for _, references in pairs]), strict=True)

    def grouped(self, references: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """Yield the references of each example, as tokens with spaces between them."""
        for some in blocks(references, SOME):
            every = iter(self.tokenized([caption for each in some for caption in each]))
            yield from (list(islice(every, len(each))) for each in some)
