"""The word generation task: spell words from nothing.

It is no `SequenceTask`: rows to train on are drawn anew in each epoch, and rows to decode are no examples.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench_core import STOP, Batch, Noise, Purpose, Size, Split, Task, TaskInfo
from bench_text.api import SPLITS, Numbers, Ragged, cut, shuffled
from bench_word_generation.lexicon import Counts, Lexicon, counted_splits, entropy, repetitive
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.word_counts import count

STOP_NAME = "<stop>"
VALID_SHARE = 10  # rows of an epoch of training for each of another split


class WordGeneration(Task):
    """Words of which each occurs as often as in a corpus (Schmidt and Hofmann, 2018, section 4).

    Rows to train on are words drawn with their training counts, anew for every noise; without noise, those that
    stand in the middles of so many equal parts of the distribution. Rows to score are types, once each, weighted by
    their counts in the split; those of test are joined by the types of train, with a weight of 0 where test lacks
    them, so that one scoring serves the cross entropies against both. Type w has the id w, in valid plus the number
    of types, and in test plus twice that. Rows to decode are empty.
    """

    config: WordGenerationConfig

    def prepare(self, data: Path) -> TaskInfo:
        found = count(self.config.corpus, data)
        words, splits = counted_splits(found, self.config)
        vocabulary = [STOP_NAME, *words.alphabet]
        rows = spelt(words.words, words.alphabet)
        samples = self.config.samples or repetitive(splits["train"], self.config.unique)
        rows.save(self.folder, "types")
        np.save(self.folder / "counts.npy", np.stack([splits[split] for split in SPLITS]), allow_pickle=False)
        known = {"vocabulary": vocabulary, "samples": samples}
        (self.folder / "known.json").write_text(json.dumps(known), encoding="utf-8")
        letters = np.bincount(rows.tokens, np.repeat(splits["train"], rows.lengths), len(vocabulary))
        statistics = _statistics(words, splits, rows.lengths - 1)
        statistics["train"]["samples"] = samples
        extras = {
            "corpus": found.name,
            **found.about,
            "statistics": statistics,
            "words": words.words,
            "word_counts": {split: numbers.tolist() for split, numbers in splits.items()},
        }
        return TaskInfo(vocabulary, letters.astype(np.int64).tolist(), extras=extras)

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        if purpose == Purpose.DECODE:
            yield from self._empty(size, noise)
            return
        counts = self._counts[SPLITS.index(split)]
        if purpose == Purpose.TRAIN:
            types = self._drawn(counts, split, noise)
            numbers = np.arange(len(types))
            weights = None
        else:
            types = (counts + (self._counts[0] if split == "test" else 0)).nonzero()[0]
            numbers = types + SPLITS.index(split) * len(counts)
            weights = counts[types].astype(np.float64)
        order = shuffled(len(types), noise.fork("rows") if noise else None)
        lengths = self._types.lengths[types]
        for rows in cut(order, lengths[order], size):
            yield Batch(
                ids=torch.from_numpy(numbers[rows]),
                opening=torch.full((len(rows), 1), STOP),
                gold=self._types.padded(types[rows]),
                length=torch.from_numpy(lengths[rows]),
                extras={} if weights is None else {"weight": torch.from_numpy(weights[rows])},
            )

    def _drawn(self, counts: Counts, split: Split, noise: Noise | None) -> Numbers:
        """Return the types of an epoch's rows [R]."""
        ends = counts.cumsum()
        most = self.config.epoch if split == "train" else max(1, self.config.epoch // VALID_SHARE)
        number = min(most, int(ends[-1]))
        if noise is None:
            places = (np.arange(number) + 0.5) / number
        else:
            places = noise.fork("words").uniform(torch.arange(number)).numpy()
        found: Numbers = ends.searchsorted(np.minimum((places * ends[-1]).astype(np.int64), ends[-1] - 1), "right")
        return found

    def _empty(self, size: Size, noise: Noise | None) -> Iterator[Batch]:
        order = shuffled(self._known["samples"], noise)
        for rows in cut(order, np.ones_like(order), size):
            stop = torch.full((len(rows), 1), STOP)
            yield Batch(torch.from_numpy(rows), stop, stop.clone(), torch.ones(len(rows), dtype=torch.long))

    def text(self, tokens: list[int]) -> str:
        vocabulary = self._known["vocabulary"]
        return "".join([vocabulary[token] for token in tokens])

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return no text for each of the rows to decode."""
        return {number: [] for number in range(self._known["samples"])}

    @cached_property
    def _known(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "known.json").read_text(encoding="utf-8")))

    @cached_property
    def _types(self) -> Ragged:
        return Ragged.load(self.folder, "types")

    @cached_property
    def _counts(self) -> Numbers:
        """Return how often each type occurs in each split [3, W]."""
        found: Numbers = np.load(self.folder / "counts.npy", allow_pickle=False)
        return found


def spelt(words: Sequence[str], alphabet: str) -> Ragged:
    """Return the tokens of words of an alphabet, whose letters are 1, 2, ..., each followed by stop."""
    signs = np.frombuffer("".join(f"{word}\0" for word in words).encode("utf-32-le"), np.uint32)
    known = np.frombuffer(f"\0{alphabet}".encode("utf-32-le"), np.uint32)  # stop is 0
    order = known.argsort()
    tokens = order[known[order].searchsorted(signs)]
    return Ragged(tokens.astype(np.int32), np.concatenate([[0], (tokens == STOP).nonzero()[0] + 1]))


def _statistics(words: Lexicon, splits: Mapping[Split, Counts], lengths: Numbers) -> dict[str, dict[str, Any]]:
    """Return for the corpus and each split what they hold, and how uncertain their next word is."""
    found: dict[str, dict[str, Any]] = {}
    for name, counts in {"all": words.counts, **splits}.items():
        tokens = int(counts.sum())
        nats = entropy(counts)
        found[name] = {
            "types": int((counts > 0).sum()),
            "tokens": tokens,
            "entropy_nats": nats,
            "entropy_bits": nats / float(np.log(2)),
            "mean_letters": float((lengths * counts).sum() / tokens),
            "unseen_types": int(((counts > 0) & (splits["train"] == 0)).sum()),
            "unseen_share": float(counts[splits["train"] == 0].sum() / tokens),
        }
    found["all"]["left_out_types"] = words.left_out
    return found
