"""The translation task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from bench_core import DataError, Split, TaskInfo
from bench_text.api import EncodedExamples, Encoder, Numbers, Ragged, evenly
from bench_translation.corpus import Parallel, parallel
from bench_translation.language_side import Side
from bench_translation.parallel_task import ParallelTask
from bench_translation.parsing import parser
from bench_translation.plugin import TranslationConfig
from bench_translation.settings import Invented
from bench_translation.tags import tags

#: `Batch.extras["heads"]` [N, T] has the place of a head for the first token of each word: that of the first token of
#: the word above it, its own at a root. Stop and what pads have PADDING, every further token of a word CONTINUES.
PADDING, CONTINUES = -1, -2


class Translation(ParallelTask):
    """A sentence and its translation, which outputs are compared with as a raw line."""

    config: TranslationConfig
    limits = ("longest", "ratio", "source_limit")

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """The languages of source and target."""
        return Side.of(self.config)

    def parallel(self, data: Path) -> Parallel:
        return parallel(self.config.corpus, self.config.languages, data)

    def prepare(self, data: Path) -> TaskInfo:
        self._parser = parser(self.config.parse, self.sides[1].lowered, data) if self.config.parse else None
        return super().prepare(data)

    def spaced(self, lines: tuple[Sequence[str], Sequence[str]]) -> Sequence[Sequence[str]]:
        return [side.tokenized(each) for side, each in zip(self.sides, lines, strict=True)]

    def reference(self, line: str) -> str:
        return self.sides[1].lowered(line)

    def raw(self, line: str) -> str:
        """Return a line with single spaces, as all tokenizers see it."""
        return " ".join(line.split())

    def text(self, tokens: list[int]) -> str:
        """Join tokens to plain text, as the raw lines of the corpus are."""
        return self.sides[1].text([self.vocabulary[token] for token in tokens])

    def unsuitable(self, encoded: EncodedExamples) -> Mapping[str, Numbers]:
        assert isinstance(encoded.source, Ragged)
        source, target = encoded.source.lengths, encoded.target.lengths
        longest, limit = self.config.longest or np.inf, self.config.source_limit or np.inf
        shorter = np.maximum(1, np.minimum(source, target))
        uneven = encoded.longer > shorter * (self.config.ratio or np.inf)
        return {"long": (source > min(longest, limit)) | (target > longest), "uneven": uneven}

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, int]]:
        """Choose pairs to train on, apply `source_limit` to the others, and add the heads of target tokens."""
        chosen, left_out = super().choose(split, encoded)
        most = self.config.examples
        if split != "train":
            chosen, left_out = self._limited(chosen, lambda place: self.corpus.read(split)[0].place(place))
        elif most is not None and most < len(chosen):
            left_out["left_out_examples"] = len(chosen) - most
            chosen = chosen.take(evenly(np.arange(len(chosen)), most))
        return self._parsed(split, [example.target for example in encoded.examples], chosen), left_out

    def fitted(self, encoded: EncodedExamples) -> EncodedExamples:
        def named(place: int) -> str:
            return f"prompt {(encoded.examples[place].id or 0) + 1}"

        return self._limited(encoded, named)[0]

    def _limited(self, rows: EncodedExamples, named: Callable[[int], str]) -> tuple[EncodedExamples, dict[str, int]]:
        """Cut off sources over the limit if so wished; else raise DataError that names the first of them."""
        assert isinstance(rows.source, Ragged)
        limit, lengths = self.config.source_limit, rows.source.lengths
        over = np.flatnonzero(lengths > (limit or np.inf))
        if limit is None or not len(over):
            return rows, {"truncated": 0} if limit else {}
        if self.config.over_limit == "error":
            place, others = int(over[0]), f"; so have {len(over) - 1:,} other lines" if len(over) > 1 else ""
            raise DataError(
                f"{named(place)} has {lengths[place]} tokens, more than the `source_limit` of {limit}{others}. Raise "
                "the limit, or set `over_limit: truncate`."
            )
        return replace(rows, source=Ragged.of(row[:limit] for row in rows.source)), {"truncated": len(over)}

    def _parsed(self, split: Split, whole: Sequence[str], rows: EncodedExamples) -> EncodedExamples:
        """Add the heads of the target's tokens, where there are any for the split."""
        numbers = [example.id for example in rows.examples if example.id is not None]
        found = self._parser.heads(split, whole, numbers) if self._parser else None
        if found is None:
            return rows
        lines = [example.target for example in rows.examples]
        wide = widths(lines, rows.encoder, spaces=self.config.tokenizer.target.kind == "char")
        heads = (spread(heads, own) for heads, own in zip(found, wide, strict=True))
        return replace(rows, extras={"heads": Ragged.of(heads)})

    def about(self, data: Path) -> dict[str, Any]:
        source, target = self.config.languages
        lower = {"references": "lowercase"} if self.config.lowercase else {}
        best = {"entropy": 0.0} if isinstance(self.config.corpus, Invented) else {}  # nats per token of the target
        parse = {"parser": self._parser.about} if self._parser else {}
        languages = {"languages": {"source": source, "target": target}}
        return {**super().about(data), **lower, **languages, **best, **parse, **self._tags(data)}

    def _tags(self, data: Path) -> dict[str, Any]:
        """Return the parts of speech of words, and what tokens are of these, where that is asked for."""
        if not self.config.tags:
            return {}
        known = tags(self.config.tags, data, self.config.language, self.sides[1].lowered)
        return {"tags": {**known, "kind": self.config.tokenizer.target.kind}}


def widths(lines: Sequence[str], encoder: Encoder, spaces: bool) -> Iterable[list[int]]:
    """Return how many tokens each word of each line has; `spaces` are tokens of the words after them."""
    types = sorted({word for line in lines for word in line.split()})
    known = {word: len(row) for word, row in zip(types, encoder.encode(types), strict=True)}
    return ([known[word] + (spaces and place > 0) for place, word in enumerate(line.split())] for line in lines)


def spread(heads: Sequence[int], widths: Sequence[int]) -> list[int]:
    """Tell the tokens of a target, its stop included, what `heads` tells its words; a root is its own head."""
    starts = [0, *accumulate(widths)]
    rows = ([starts[head], *[CONTINUES] * (width - 1)] for head, width in zip(heads, widths, strict=True))
    return [head for row in rows for head in row] + [PADDING]
