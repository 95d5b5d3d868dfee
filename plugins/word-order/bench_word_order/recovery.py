"""The word-order recovery task: from the bag of its tokens to the sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench_core import STOP, Batch, DataError, Noise, Purpose, Size, Split, TaskInfo
from bench_language_modeling import api
from bench_language_modeling.api import (
    SPLITS,
    SPLITTERS,
    Ragged,
    Text,
    Tokenized,
    bucketed,
    cut,
    evenly,
    join,
    learn,
    padded,
    shuffled,
    statistics,
)
from bench_word_order.plugin import WordOrderConfig

FEWEST = 2  # sentences that a split must have


class WordOrder(Tokenized):
    """The tokens of a sentence without their order, and the sentence (Gu et al., 2019, section 5).

    Source and target have one vocabulary, learnt from the training split. A source holds each token as often as the
    target does and no stop; nothing binds the output to it. The id of an example is its place among those kept.
    """

    config: WordOrderConfig

    def prepare(self, data: Path) -> TaskInfo:
        text = api.text(self.config.corpus, data)
        cutter = SPLITTERS["lines" if text.sentences else self.config.sentences]
        sentences = {split: list(cutter(text.paragraphs(split))) for split in SPLITS}
        encoder = learn(self.config.tokenizer, sentences["train"], [])
        found, counts = {}, np.zeros(len(encoder.vocabulary), np.int64)
        for split in SPLITS:
            rows = Ragged.of(encoder.encode(sentences[split]))
            kept, left_out = self._kept(rows.lengths, split, text)
            rows = _taken(rows, kept)
            found[split] = statistics(rows, "sentences", encoder) | left_out
            if split == "train":
                counts = np.bincount(rows.tokens, minlength=len(counts))
                counts[STOP] = len(rows)
            Ragged.of([*row, STOP] for row in rows).save(self.folder, split)
            self._bags(rows, split).save(self.folder, f"{split}.bag")
            self._file(split).write_text(json.dumps([sentences[split][place] for place in kept]), encoding="utf-8")
        info = self._facts(text, encoder, counts.tolist(), {"shared": True, "statistics": found})
        return replace(info, source_vocabulary=info.vocabulary)

    def _kept(self, lengths: NDArray[Any], split: Split, text: Text) -> tuple[NDArray[Any], dict[str, int]]:
        """Return the places of sentences within the limits, and what is left out; raise DataError for too few."""
        short, long = lengths < self.config.shortest, lengths > (self.config.longest or np.inf)
        kept = np.flatnonzero(~(short | long))
        if len(kept) < FEWEST:
            raise DataError(
                f"the {split} split of {text.name} has {len(kept)} sentences of {self.config.shortest} to "
                f"{self.config.longest or 'any number of'} tokens, of {len(lengths):,}; at least {FEWEST} are "
                "needed. Change `shortest`, `longest` or `sentences`, or choose a larger corpus."
            )
        left_out = {"left_out_short": int(short.sum()), "left_out_long": int(long.sum())}
        most = self.config.examples
        if split == "train" and most is not None and most < len(kept):
            left_out["left_out_examples"] = len(kept) - most
            kept = evenly(kept, most)
        return kept, left_out

    def _bags(self, rows: Ragged, split: Split) -> Ragged:
        """Return the tokens of each row by number, or in an order that depends on split, seed and place alone."""
        keys = rows.tokens
        if self.config.bag == "shuffled":
            keys = Noise(self.config.seed).fork("bag").shared(split, (len(rows.tokens),)).numpy()
        owners = np.repeat(np.arange(len(rows)), rows.lengths)
        return Ragged(rows.tokens[np.lexsort((keys, owners))], rows.edges)

    def _file(self, split: Split) -> Path:
        return self.folder / f"{split}.json"

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        """Yield a sentence a row; a size in tokens counts targets, padded as they are."""
        target, bag = Ragged.load(self.folder, split), Ragged.load(self.folder, f"{split}.bag")
        lengths = target.lengths
        if noise and purpose == Purpose.TRAIN:
            groups = bucketed(lengths, size, noise)
        else:
            order = shuffled(len(target), noise)
            groups = cut(order, lengths[order], size)
        for rows in groups:
            yield Batch(
                ids=torch.from_numpy(rows),
                opening=torch.full((len(rows), 1), STOP),
                gold=padded(target.tokens, target.edges[rows], target.edges[rows + 1]),
                length=torch.from_numpy(lengths[rows]),
                source=padded(bag.tokens, bag.edges[rows], bag.edges[rows + 1]),
                source_length=torch.from_numpy(lengths[rows] - 1),
            )

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the one sentence of each bag, as it stands in the corpus."""
        return {place: [line] for place, line in enumerate(json.loads(self._file(split).read_text(encoding="utf-8")))}

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the tokens of each bag, in the order that models see, with spaces between them."""
        kind = self.config.tokenizer.kind
        pieces = [join(kind, [token], token) for token in self.vocabulary]
        bags = Ragged.load(self.folder, f"{split}.bag")
        return {place: " ".join(pieces[token] for token in bag) for place, bag in enumerate(bags)}


def _taken(rows: Ragged, places: NDArray[Any]) -> Ragged:
    """Return the rows at these places."""
    return Ragged.of(rows.tokens[rows.edges[place] : rows.edges[place + 1]].tolist() for place in places)
