"""Code shared by the caption metrics."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from typing import Any, TypeVar

from bench_captioning.ptb import SIGNATURE, tokenize
from bench_core import Prediction
from bench_metrics.api import TextMetric, blocks, compared

X = TypeVar("X")

EXAMPLES_PER_START = 20_000  # examples per Java process


class CaptionMetric(TextMetric[X]):
    """A metric of the first text of each example, tokenized as in the COCO evaluation."""

    better = 1

    def __init__(self, config: Any, about: str) -> None:
        """Set the signature; `about` describes the settings that scores depend on."""
        super().__init__(config)
        self.signature = f"{about}|{SIGNATURE}|pycocoevalcap:{version('pycocoevalcap')}"

    def tokenize(self, captions: Sequence[str]) -> list[str]:
        """Tokenize captions, with spaces between tokens; raise SuiteError if the tokenizer fails."""
        return tokenize(captions, self.config.patience)

    def text_pairs(self, predictions: Sequence[Prediction]) -> Iterator[tuple[str, list[str]]]:
        """Yield the first text of each example and its references, tokenized, with spaces between tokens."""
        for pairs in blocks(compared(predictions), EXAMPLES_PER_START):
            texts = self.tokenize([text for text, _ in pairs])
            yield from zip(texts, self.tokenize_groups([references for _, references in pairs]), strict=True)

    def tokenize_groups(self, references: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """Yield the references of each example, tokenized, with spaces between tokens."""
        for some in blocks(references, EXAMPLES_PER_START):
            every = iter(self.tokenize([caption for each in some for caption in each]))
            yield from (list(islice(every, len(each))) for each in some)
