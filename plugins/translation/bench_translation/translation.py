"""The translation task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench_core import STOP, Batch, DataError, Noise, Purpose, Size, Split, Task, TaskInfo
from bench_text.api import Encoder, Ragged, bucketed, cut, evenly, learn, padded, shuffled
from bench_translation.corpus import Lines, Parallel, parallel
from bench_translation.dependency_heads import spread, widths
from bench_translation.examples import Examples, load_lines, save_further, save_lines, with_further
from bench_translation.language_side import Side
from bench_translation.parsing import Parser, parser
from bench_translation.plugin import TranslationConfig
from bench_translation.settings import Invented
from bench_translation.tags import tags

FEWEST = 2  # pairs to train on


@dataclass(frozen=True)
class Spaced:
    """Those pairs of a split that are no empty lines, with spaces between their tokens."""

    ids: list[int]  # lines of the files, counted from 0
    left_out: int
    source: list[str]
    target: list[str]
    whole: Sequence[str]  # the target of all pairs


class Translation(Task):
    """A sentence and its translation; both end with stop, and both lengths count it.

    The id of a pair is the number of its line, counted from 0. All pairs of valid and test are decoded and scored,
    against the raw lines of the target; only those to train on are chosen.
    """

    config: TranslationConfig

    def prepare(self, data: Path) -> TaskInfo:
        corpus = parallel(self.config.corpus, self.config.languages, data)
        lines = {split: corpus.read(split) for split in corpus.splits}
        spaced = {split: self._spaced(split, *both) for split, both in lines.items()}
        source, target = self._encoders(spaced["train"])
        parse = parser(self.config.parse, Side.of(self.config)[1].lowered, data) if self.config.parse else None
        found = {}
        for split, pairs in spaced.items():
            rows = Examples.of(pairs.ids, source.encode(pairs.source), target.encode(pairs.target))
            if split == "train":
                rows, left_out = self._chosen(rows, corpus)
                told = {"left_out_empty": pairs.left_out, **left_out}
            else:
                rows, told = self._limited(rows, lines[split][0])
            found[split] = _statistics(rows, source, target) | told
            rows = self._parsed(rows, split, pairs, target, parse) if parse else rows
            rows.save(self.folder, split)
            for name, side in zip(("source", "target"), lines[split], strict=True):
                save_lines(self.folder, f"{split}.{name}", [side.texts[number] for number in rows.ids])
            save_further(
                self.folder, split, [[more.texts[number] for number in rows.ids] for more in corpus.more(split)]
            )
        (self.folder / "vocabulary.json").write_text(json.dumps(target.vocabulary), encoding="utf-8")
        train = Examples.load(self.folder, "train").target.tokens
        counts = np.bincount(train, minlength=len(target.vocabulary)).tolist()
        about = self._about(corpus, found) | ({"parser": parse.about} if parse else {}) | self._tags(data)
        return TaskInfo(target.vocabulary, counts, source.vocabulary, extras=about)

    def _spaced(self, split: Split, source: Lines, target: Lines) -> Spaced:
        """Set tokens apart; raise DataError if a line that is not trained on has none."""
        sides = [
            side.tokenized(each.texts) for side, each in zip(Side.of(self.config), (source, target), strict=True)
        ]
        full = [number for number, pair in enumerate(zip(*sides, strict=True)) if all(pair)]
        empty = sorted(set(range(len(source.texts))) - set(full))
        if empty and split != "train":
            first = empty[0]
            where = [each.place(first) for each, side in zip((source, target), sides, strict=True) if not side[first]]
            others = f"; so are {len(empty) - 1:,} other pairs" if len(empty) > 1 else ""
            raise DataError(
                f"empty: {' and '.join(where)}{others}. Every pair of {split} counts: fill the line, or take it out "
                "of both files."
            )
        source_lines, target_lines = ([side[number] for number in full] for side in sides)
        return Spaced(full, len(empty), source_lines, target_lines, sides[1])

    def _encoders(self, train: Spaced) -> tuple[Encoder, Encoder]:
        """Learn the vocabularies from the pairs to train on alone."""
        settings = self.config.tokenizer
        if self.config.shared:
            both = learn(settings.target, [*train.source, *train.target], [])
            return both, both
        return learn(settings.source, train.source, []), learn(settings.target, train.target, [])

    def _chosen(self, rows: Examples, corpus: Parallel) -> tuple[Examples, dict[str, int]]:
        """Leave out pairs that are too long or too uneven to train on; raise DataError if too little is left."""
        source, target = rows.source.lengths - 1, rows.target.lengths - 1
        longest, limit = self.config.longest or np.inf, self.config.source_limit or np.inf
        long = (source > min(longest, limit)) | (target > longest)
        uneven = np.maximum(source, target) > np.minimum(source, target) * (self.config.ratio or np.inf)
        kept = ~(long | uneven)
        left_out = {"left_out_long": int(long.sum()), "left_out_uneven": int((uneven & ~long).sum())}
        if kept.sum() < FEWEST:
            raise DataError(
                f"{int(kept.sum())} pairs of {corpus.name} are left to train on, of {len(rows):,} that are not "
                f"empty; {left_out['left_out_long']:,} are too long and {left_out['left_out_uneven']:,} too uneven. "
                "Change `longest`, `ratio` or `source_limit`, or choose a larger corpus."
            )
        most, places = self.config.examples, np.flatnonzero(kept)
        if most is not None and most < len(places):
            left_out["left_out_examples"] = len(places) - most
            kept = np.isin(np.arange(len(kept)), evenly(places, most))
        return rows if kept.all() else rows.where(kept), left_out

    def _limited(self, rows: Examples, source: Lines) -> tuple[Examples, dict[str, int]]:
        """Cut off sources over the limit if so wished; else raise DataError that names the first of them."""
        limit = self.config.source_limit
        over = rows.source.lengths - 1 > (limit or np.inf)
        if limit is None or not over.any():
            return rows, {"truncated": 0} if limit else {}
        if self.config.over_limit == "error":
            first, number = int(over.argmax()), int(over.sum())
            others = f"; so have {number - 1:,} other lines" if number > 1 else ""
            raise DataError(
                f"{source.place(int(rows.ids[first]))} has {int(rows.source.lengths[first]) - 1} tokens, more than "
                f"the `source_limit` of {limit}{others}. Raise the limit, or set `over_limit: truncate`."
            )
        short = Ragged.of(row if len(row) <= limit + 1 else [*row[:limit], STOP] for row in rows.source)
        return replace(rows, source=short), {"truncated": int(over.sum())}

    def _parsed(self, rows: Examples, split: Split, pairs: Spaced, target: Encoder, parse: Parser) -> Examples:
        """Add the heads of the target's tokens, where there are any for the split."""
        found = parse.heads(split, pairs.whole, rows.ids.tolist())
        if found is None:
            return rows
        lines = [pairs.whole[number] for number in rows.ids]
        wide = widths(lines, target, spaces=self.config.tokenizer.target.kind == "char")
        told = (spread(heads, own) for heads, own in zip(found, wide, strict=True))
        return replace(rows, heads=Ragged.of([head + 1 for head in row] for row in told))  # padding is 0 there

    def _about(self, corpus: Parallel, statistics: Mapping[str, Any]) -> dict[str, Any]:
        source, target = self.config.languages
        best = {"entropy": 0.0} if isinstance(self.config.corpus, Invented) else {}  # nats per token of the target
        about = {"corpus": corpus.name, "embedded": corpus.embedded, "shared": self.config.shared}
        about |= {"references": "lowercase"} if self.config.lowercase else {}
        return {**about, "languages": {"source": source, "target": target}, "statistics": statistics, **best}

    def _tags(self, data: Path) -> dict[str, Any]:
        """Return the parts of speech of words, and what tokens are of these, where that is asked for."""
        if not self.config.tags:
            return {}
        _, target = Side.of(self.config)
        known = tags(self.config.tags, data, target.language, target.lowered)
        return {"tags": {**known, "kind": self.config.tokenizer.target.kind}}

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
                extras={"heads": _padded(pairs.heads, rows) - 1} if pairs.heads else {},
            )

    @cached_property
    def _target(self) -> tuple[list[str], Side]:
        vocabulary = json.loads((self.folder / "vocabulary.json").read_text(encoding="utf-8"))
        return vocabulary, Side.of(self.config)[1]

    def text(self, tokens: list[int]) -> str:
        """Join tokens to plain text, as the raw lines of the corpus are."""
        vocabulary, side = self._target
        return side.text([vocabulary[token] for token in tokens])

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the raw target of each pair and its further translations; in lower case, if so wished."""
        lowered = Side.of(self.config)[1].lowered
        found = with_further(self.folder, split, self._raw(split, "target"))
        return {number: [lowered(line) for line in lines] for number, lines in found.items()}

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the raw line of the source of each pair."""
        return self._raw(split, "source")

    def _raw(self, split: Split, side: str) -> dict[int, str]:
        ids = Examples.load(self.folder, split).ids.tolist()
        return dict(zip(ids, load_lines(self.folder, f"{split}.{side}"), strict=True))


def _padded(rows: Ragged, which: np.ndarray[Any, Any]) -> torch.Tensor:
    return padded(rows.tokens, rows.edges[which], rows.edges[which + 1])


def _statistics(rows: Examples, source: Encoder, target: Encoder) -> dict[str, int | float]:
    """Return how many pairs, tokens (without stop), types and unknown tokens there are."""
    found: dict[str, int | float] = {"pairs": len(rows)}
    for name, side, encoder in (("source", rows.source, source), ("target", rows.target, target)):
        lengths, unknown = side.lengths - 1, encoder.unknown
        found[f"{name}_tokens"] = int(lengths.sum())
        found[f"{name}_types"] = len(np.unique(side.tokens)) - 1
        found[f"{name}_unknown"] = int((side.tokens == unknown).sum())
        found[f"{name}_mean_length"] = round(float(lengths.mean()), 2)
        found[f"{name}_max_length"] = int(lengths.max())
    return found
