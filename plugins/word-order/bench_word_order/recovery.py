"""The word-order recovery task: reconstruct a sentence from the bag of its tokens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench_core import DataError, Rng, Split, TaskInfo
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
from bench_word_order.plugin import MIN_SENTENCES, WordOrderConfig


class WordOrder(SequenceTask):
    """Reconstruction of a sentence from the bag of its tokens (Gu et al., 2019, section 5).

    Source and target share a vocabulary, learned from the training split. A source has the tokens of its target,
    without EOS; outputs may contain other tokens. The id of an example is its index among the selected sentences.
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
        """Exclude sentences outside the length limits; raise DataError if too few are left."""
        lengths = encoded.target.lengths
        short, long = lengths < self.config.shortest, lengths > (self.config.longest or np.inf)
        selected = np.flatnonzero(~(short | long))
        if len(selected) < MIN_SENTENCES:
            upper = f" and at most {self.config.longest}" if self.config.longest else ""
            raise DataError(
                f"the {split} split of {self._corpus.name} has {len(selected)} sentences with at least "
                f"{self.config.shortest}{upper} tokens (out of {len(lengths):,}); {MIN_SENTENCES} are needed. Change "
                "`shortest`, `longest` or `sentences`, or choose a larger corpus."
            )
        left_out = {"left_out_short": int(short.sum()), "left_out_long": int(long.sum())}
        limit = self.config.examples
        if split == "train" and limit is not None and limit < len(selected):
            left_out["left_out_examples"] = len(selected) - limit
            selected = evenly(selected, limit)
        chosen = encoded.take(selected).renumbered()
        return chosen if self.config.bag == "sorted" else replace(
            chosen, source=self._bags(chosen.target, split)
        ), left_out

    def _bags(self, rows: Ragged, split: Split) -> Ragged:
        """Return the tokens of each row in an order that depends only on the split, the seed and their positions."""
        keys = Rng(self.config.seed).fork("bag").shared(split, (len(rows.tokens),)).numpy()
        owners = np.repeat(np.arange(len(rows)), rows.lengths)
        return Ragged(rows.tokens[np.lexsort((keys, owners))], rows.edges)

    def fitted(self, encoded: EncodedExamples) -> EncodedExamples:
        """Return new examples with bags that are sorted or, with shuffled bags, in text order."""
        if self.config.bag == "sorted" or encoded.source_encoder is None:
            return encoded
        texts = [example.source for example in encoded.examples]
        return replace(encoded, source=Ragged.of(encoded.source_encoder.encode(texts)))

    def statistics(self, encoded: EncodedExamples) -> dict[str, Any]:
        return {"sentences": len(encoded), **token_statistics(encoded.target)}

    def about(self, data: Path) -> dict[str, Any]:
        return {**self._corpus.about, "shared": True}

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the tokens of each bag, in the order that models see, joined by spaces."""
        kind, bags = self.config.tokenizer.kind, StoredExamples.load(self.folder, split).source
        assert isinstance(bags, Ragged)
        pieces = [join(kind, [token], token) for token in self.vocabulary]
        return {place: " ".join(pieces[token] for token in bag) for place, bag in enumerate(bags)}
