"""The word generation task: generate words without a source or prompt.

It is not a `SequenceTask`, because training rows are sampled in each epoch, and rows to decode are not examples.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench_core import STOP, Batch, Purpose, Rng, Size, Split, Task, TaskInfo
from bench_text.api import SPLITS, Numbers, Ragged, cut, shuffled
from bench_word_generation.hidden_words import true_values
from bench_word_generation.lexicon import Counts, Excluded, Lexicon, Reason, entropy, make_splits, sample_size
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.settings import HiddenMarkovWords
from bench_word_generation.word_counts import count

STOP_NAME = "<stop>"
TRAIN_ROWS_PER_VALID_ROW = 10  # rows of train in an epoch, per row of valid


class WordGeneration(Task):
    """Words with their frequencies in a corpus (Schmidt and Hofmann, 2018, section 4).

    Training rows are words sampled by their training counts; without an rng, they are evenly spaced quantiles of the
    distribution. Rows to score are the types of a split, weighted by their counts; test also has the types of train,
    with weight 0 if they are not in test, so that a single pass gives the cross-entropies against both splits. With W
    types, the id of type w is w in train, w + W in valid, and w + 2 W in test. Rows to decode are empty.
    """

    config: WordGenerationConfig

    def prepare(self, data: Path) -> TaskInfo:
        corpus = count(self.config.corpus, data)
        words, splits = make_splits(corpus, self.config)
        vocabulary = [STOP_NAME, *words.alphabet]
        rows = spell(words.words, words.alphabet)
        samples = self.config.samples or sample_size(splits["train"], self.config.unique)
        rows.save(self.folder, "types")
        np.save(self.folder / "counts.npy", np.stack([splits[split] for split in SPLITS]), allow_pickle=False)
        metadata = {"vocabulary": vocabulary, "samples": samples}
        (self.folder / "known.json").write_text(json.dumps(metadata), encoding="utf-8")
        letters = np.bincount(rows.tokens, np.repeat(splits["train"], rows.lengths), len(vocabulary))
        statistics = _statistics(words, splits, rows.lengths - 1)
        statistics["train"]["samples"] = samples
        truth: dict[str, Any] = {}
        if isinstance(self.config.corpus, HiddenMarkovWords):
            lengths = self.config.shortest, self.config.longest
            truth, true_statistics = true_values(self.config.corpus, *lengths, words.words)
            statistics["all"] |= true_statistics
        extras = {
            **truth,
            "corpus": corpus.name,
            **corpus.about,
            "statistics": statistics,
            "words": words.words,
            "word_counts": {split: numbers.tolist() for split, numbers in splits.items()},
        }
        return TaskInfo(vocabulary, letters.astype(np.int64).tolist(), extras=extras)

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        if purpose == Purpose.DECODE:
            yield from self._empty_batches(size, rng)
            return
        counts = self._counts[SPLITS.index(split)]
        if purpose == Purpose.TRAIN:
            types = self._sample_types(counts, split, rng)
            numbers = np.arange(len(types))
            weights = None
        else:
            types = (counts + (self._counts[0] if split == "test" else 0)).nonzero()[0]
            numbers = types + SPLITS.index(split) * len(counts)
            weights = counts[types].astype(np.float64)
        order = shuffled(len(types), rng.fork("rows") if rng else None)
        lengths = self._types.lengths[types]
        for rows in cut(order, lengths[order], size):
            yield Batch(
                ids=torch.from_numpy(numbers[rows]),
                prompt=torch.full((len(rows), 1), STOP),
                gold=self._types.padded(types[rows]),
                length=torch.from_numpy(lengths[rows]),
                extras={} if weights is None else {"weight": torch.from_numpy(weights[rows])},
            )

    def _sample_types(self, counts: Counts, split: Split, rng: Rng | None) -> Numbers:
        """Return the types [R] of an epoch's rows."""
        ends = counts.cumsum()
        limit = self.config.epoch if split == "train" else max(1, self.config.epoch // TRAIN_ROWS_PER_VALID_ROW)
        number = min(limit, int(ends[-1]))
        if rng is None:
            places = (np.arange(number) + 0.5) / number
        else:
            places = rng.fork("words").uniform(torch.arange(number)).numpy()
        types: Numbers = ends.searchsorted(np.minimum((places * ends[-1]).astype(np.int64), ends[-1] - 1), "right")
        return types

    def _empty_batches(self, size: Size, rng: Rng | None) -> Iterator[Batch]:
        order = shuffled(self._metadata["samples"], rng)
        for rows in cut(order, np.ones_like(order), size):
            stop = torch.full((len(rows), 1), STOP)
            yield Batch(torch.from_numpy(rows), stop, stop.clone(), torch.ones(len(rows), dtype=torch.long))

    def text(self, tokens: list[int]) -> str:
        vocabulary = self._metadata["vocabulary"]
        return "".join([vocabulary[token] for token in tokens])

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return an empty list of references for each row to decode."""
        return {number: [] for number in range(self._metadata["samples"])}

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "known.json").read_text(encoding="utf-8")))

    @cached_property
    def _types(self) -> Ragged:
        return Ragged.load(self.folder, "types")

    @cached_property
    def _counts(self) -> Numbers:
        """Return the count of each type in each split [3, W]."""
        counts: Numbers = np.load(self.folder / "counts.npy", allow_pickle=False)
        return counts


def spell(words: Sequence[str], alphabet: str) -> Ragged:
    """Return the tokens of words, each followed by EOS; the letters of the alphabet are tokens 1, 2, ..."""
    characters = np.frombuffer("".join(f"{word}\0" for word in words).encode("utf-32-le"), np.uint32)
    codes = np.frombuffer(f"\0{alphabet}".encode("utf-32-le"), np.uint32)  # EOS is 0
    order = codes.argsort()
    tokens = order[codes[order].searchsorted(characters)]
    return Ragged(tokens.astype(np.int32), np.concatenate([[0], (tokens == STOP).nonzero()[0] + 1]))


def _statistics(words: Lexicon, splits: Mapping[Split, Counts], lengths: Numbers) -> dict[str, dict[str, Any]]:
    """Return the sizes and entropies of the corpus and of each split."""
    statistics: dict[str, dict[str, Any]] = {}
    for name, counts in {"all": words.counts, **splits}.items():
        tokens = int(counts.sum())
        nats = entropy(counts)
        statistics[name] = {
            "types": int((counts > 0).sum()),
            "tokens": tokens,
            "entropy_nats": nats,
            "entropy_bits": nats / float(np.log(2)),
            "mean_letters": float((lengths * counts).sum() / tokens),
            "unseen_types": int(((counts > 0) & (splits["train"] == 0)).sum()),
            "unseen_share": float(counts[splits["train"] == 0].sum() / tokens),
        }
    statistics["all"] |= _left_out(words.left_out)
    return statistics


def _left_out(reasons: Mapping[Reason, Excluded]) -> dict[str, int]:
    """Return how many types and tokens of the corpus no split has, in all and by reason."""
    whole = Excluded(*map(sum, zip(*reasons.values(), strict=True)))
    counted = {"": whole, **{f"{reason}_": each for reason, each in reasons.items()}}
    return {
        f"left_out_{name}{unit}": number for name, each in counted.items() for unit, number in each._asdict().items()
    }
