"""The word-order recovery task: from the bag of its tokens to the sentence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench_core import DataError, Noise, Split, TaskInfo
from bench_language_modeling import api
from bench_text.api import (
    EncodedExamples,
    Encoder,
    Example,
    Ragged,
    SequenceTask,
    StoredExamples,
    evenly,
    join,
    token_statistics,
)
from bench_word_order.plugin import FEWEST, WordOrderConfig


class WordOrder(SequenceTask):
    """The tokens of a sentence without their order, and the sentence (Gu et al., 2019, section 5).

    Source and target have one vocabulary, learned from the training split. A source holds each token as often as the
    target does and no stop; nothing binds the output to it. The id of an example is its place among those kept.
    """

    config: WordOrderConfig

    def prepare(self, data: Path) -> TaskInfo:
        self._corpus = api.text(self.config.corpus, data)
        return super().prepare(data)

    @property
    def splits(self) -> Sequence[Split]:
        return self.config.corpus.splits

    def examples(self, split: Split, data: Path) -> Iterator[tuple[str, str]]:
        return ((line, line) for line in api.sentences(self._corpus, split, self.config.sentences))

    def encoders(self, data: Path, found: Mapping[Split, Sequence[Example]]) -> tuple[Encoder, Encoder]:
        both = self.encoder(self.config.tokenizer, data, [example.target for example in found.get("train", ())])
        return both, both

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, Any]]:
        """Leave out sentences beyond the limits; raise DataError for too few."""
        lengths = encoded.target.lengths
        short, long = lengths < self.config.shortest, lengths > (self.config.longest or np.inf)
        kept = np.flatnonzero(~(short | long))
        if len(kept) < FEWEST:
            raise DataError(
                f"the {split} split of {self._corpus.name} has {len(kept)} sentences of {self.config.shortest} to "
                f"{self.config.longest or 'any number of'} tokens, of {len(lengths):,}; at least {FEWEST} are "
                "needed. Change `shortest`, `longest` or `sentences`, or choose a larger corpus."
            )
        left_out = {"left_out_short": int(short.sum()), "left_out_long": int(long.sum())}
        most = self.config.examples
        if split == "train" and most is not None and most < len(kept):
            left_out["left_out_examples"] = len(kept) - most
            kept = evenly(kept, most)
        chosen = encoded.take(kept).renumbered()
        return chosen if self.config.bag == "sorted" else replace(
            chosen, source=self._bags(chosen.target, split)
        ), left_out

    def _bags(self, rows: Ragged, split: Split) -> Ragged:
        """Return the tokens of each row in an order that depends on split, seed and place alone."""
        keys = Noise(self.config.seed).fork("bag").shared(split, (len(rows.tokens),)).numpy()
        owners = np.repeat(np.arange(len(rows)), rows.lengths)
        return Ragged(rows.tokens[np.lexsort((keys, owners))], rows.edges)

    def fitted(self, encoded: EncodedExamples) -> EncodedExamples:
        """Return new bags: sorted, or in the order of the text where bags are shuffled."""
        if self.config.bag == "sorted" or encoded.source_encoder is None:
            return encoded
        texts = [example.source for example in encoded.examples]
        return replace(encoded, source=Ragged.of(encoded.source_encoder.encode(texts)))

    def statistics(self, encoded: EncodedExamples) -> dict[str, Any]:
        return {"sentences": len(encoded), **token_statistics(encoded.target)}

    def about(self, data: Path) -> dict[str, Any]:
        return {**self._corpus.about, "shared": True}

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the tokens of each bag, in the order that models see, with spaces between them."""
        kind, bags = self.config.tokenizer.kind, StoredExamples.load(self.folder, split).source
        assert isinstance(bags, Ragged)
        pieces = [join(kind, [token], token) for token in self.vocabulary]
        return {place: " ".join(pieces[token] for token in bag) for place, bag in enumerate(bags)}
