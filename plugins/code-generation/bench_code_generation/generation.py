"""The code generation task: pseudo-code in, one line of Python out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench_code_generation.corpus import CLEAN, Collection, Pairs, collection
from bench_code_generation.plugin import CodeGenerationConfig
from bench_core import STOP, Batch, DataError, Noise, Purpose, Size, Split, Task, TaskInfo
from bench_text.api import Encoder, Ragged, bucketed, cut, join, learn, padded, shuffled
from bench_translation.api import Examples, load_lines, save_further, save_lines, with_further

FEWEST = 2  # pairs to train on
SIDES = ("source", "target")


class CodeGeneration(Task):
    """Pseudo-code and a line of Python; both end with stop, and both lengths count it.

    Tokens are what white space separates, or pieces of that. The id of a pair is its number in the split, counted
    from 0. All pairs of valid and test are decoded and scored; only those to train on are chosen.
    """

    config: CodeGenerationConfig

    def prepare(self, data: Path) -> TaskInfo:
        corpus = collection(self.config.corpus, data)
        found, encoders = {}, None
        for split in CLEAN:
            pairs = corpus.read(split)
            ids, lines, empty = self._spaced(split, pairs)
            encoders = encoders or self._encoders(*lines)  # the first split is the one to train on
            rows = Examples.of(ids, *(encoder.encode(side) for encoder, side in zip(encoders, lines, strict=True)))
            told = {}
            if split == "train":
                rows, long = self._chosen(rows, corpus)
                told = {"left_out_empty": empty, "left_out_long": long}
            found[split] = _statistics(rows, encoders) | told
            rows.save(self.folder, split)
            kept = set(rows.ids.tolist())
            for name, side in zip(SIDES, lines, strict=True):
                numbered = zip(ids, side, strict=True)
                save_lines(self.folder, f"{split}.{name}", [line for number, line in numbered if number in kept])
            further = [[" ".join(side[number].split()) for number in rows.ids] for side in pairs.further]
            save_further(self.folder, split, further)
        assert encoders is not None
        source, target = encoders
        (self.folder / "vocabulary.json").write_text(json.dumps(target.vocabulary), encoding="utf-8")
        tokens = Examples.load(self.folder, "train").target.tokens
        counts = np.bincount(tokens, minlength=len(target.vocabulary)).tolist()
        about = {"corpus": corpus.name, "embedded": corpus.embedded, "shared": self.config.shared}
        return TaskInfo(target.vocabulary, counts, source.vocabulary, extras={**about, "statistics": found})

    def _spaced(self, split: Split, pairs: Pairs) -> tuple[list[int], tuple[list[str], list[str]], int]:
        """Return numbers and lines of the pairs that are not empty, and how many are.

        White space of all sorts becomes single spaces. Raise DataError for an empty line that is not trained on.
        """
        source, target = ([" ".join(line.split()) for line in side] for side in (pairs.source, pairs.target))
        full = [place for place, pair in enumerate(zip(source, target, strict=True)) if all(pair)]
        empty = sorted(set(range(len(source))) - set(full))
        if empty and split != "train":
            first = empty[0]
            sides = zip(pairs.where(first), (source[first], target[first]), strict=True)
            others = f"; so are {len(empty) - 1:,} other pairs" if len(empty) > 1 else ""
            raise DataError(
                f"empty: {' and '.join(place for place, line in sides if not line)}{others}. Every pair of {split} "
                "counts: fill the line, or take it out of both files."
            )
        return full, ([source[place] for place in full], [target[place] for place in full]), len(empty)

    def _encoders(self, source: list[str], target: list[str]) -> tuple[Encoder, Encoder]:
        """Learn the vocabularies from the pairs to train on alone."""
        settings = self.config.tokenizer
        if self.config.shared:
            both = learn(settings.target, [*source, *target], [])
            return both, both
        return learn(settings.source, source, []), learn(settings.target, target, [])

    def _chosen(self, rows: Examples, corpus: Collection) -> tuple[Examples, int]:
        """Leave out pairs that are too long to train on; raise DataError if too little is left."""
        longer = np.maximum(rows.source.lengths, rows.target.lengths) - 1
        kept = longer <= (self.config.longest or np.inf)
        if kept.sum() < FEWEST:
            raise DataError(
                f"{int(kept.sum())} pairs of {corpus.name} are left to train on, of {len(rows):,} that are not "
                "empty. Change `longest`, or choose a larger corpus."
            )
        return rows if kept.all() else rows.where(kept), int((~kept).sum())

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        """Yield a pair a row; a size in tokens counts the longer side of each pair, padded as it is."""
        pairs = Examples.load(self.folder, split)
        source, target = pairs.source.lengths, pairs.target.lengths
        longer = np.maximum(source, target)
        if noise and purpose == Purpose.TRAIN:
            groups = bucketed(longer, size, noise)
        else:
            order = shuffled(len(pairs), noise)
            groups = cut(order, longer[order], size)
        for rows in groups:
            yield Batch(
                ids=torch.from_numpy(pairs.ids[rows]),
                opening=torch.full((len(rows), 1), STOP),
                gold=_padded(pairs.target, rows),
                length=torch.from_numpy(target[rows]),
                source=_padded(pairs.source, rows),
                source_length=torch.from_numpy(source[rows]),
            )

    @cached_property
    def _vocabulary(self) -> list[str]:
        return list(json.loads((self.folder / "vocabulary.json").read_text(encoding="utf-8")))

    def text(self, tokens: list[int]) -> str:
        """Return code with single spaces between its tokens, as references have them."""
        words = join(self.config.tokenizer.target.kind, [self._vocabulary[token] for token in tokens])
        return " ".join(words.split())

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the line of code of each pair, and further ones, with single spaces between tokens."""
        return with_further(self.folder, split, self._lines(split, "target"))

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the pseudo-code of each pair."""
        return self._lines(split, "source")

    def _lines(self, split: Split, side: str) -> dict[int, str]:
        ids = np.load(self.folder / f"{split}.ids.npy", allow_pickle=False).tolist()
        return dict(zip(ids, load_lines(self.folder, f"{split}.{side}"), strict=True))


def _padded(rows: Ragged, which: np.ndarray[Any, Any]) -> torch.Tensor:
    return padded(rows.tokens, rows.edges[which], rows.edges[which + 1])


def _statistics(rows: Examples, encoders: tuple[Encoder, Encoder]) -> dict[str, int | float]:
    """Return how many pairs, tokens (without stop), types and unknown tokens there are."""
    found: dict[str, int | float] = {"pairs": len(rows)}
    for name, side, encoder in zip(SIDES, (rows.source, rows.target), encoders, strict=True):
        lengths = side.lengths - 1
        found[f"{name}_tokens"] = int(lengths.sum())
        found[f"{name}_types"] = len(np.unique(side.tokens)) - 1
        found[f"{name}_unknown"] = int((side.tokens == encoder.unknown).sum())
        found[f"{name}_mean_length"] = round(float(lengths.mean()), 2)
        found[f"{name}_max_length"] = int(lengths.max())
    return found
