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
from bench_translation.language_side import LanguageSide
from bench_translation.parallel_task import ParallelTask
from bench_translation.parsing import parser
from bench_translation.plugin import TranslationConfig
from bench_translation.settings import Invented
from bench_translation.tags import tags

#: `Batch.extras["heads"]` [N, T] has, for the first token of each word, the position of the first token of its head,
#: or its own position for a root. EOS and padding have PADDING; further tokens of a word have CONTINUES.
PADDING, CONTINUES = -1, -2


class Translation(ParallelTask):
    """Pairs of a sentence and its translation; outputs are compared with the raw target line."""

    config: TranslationConfig
    limits = ("longest", "ratio", "source_limit")

    @cached_property
    def sides(self) -> tuple[LanguageSide, LanguageSide]:
        """The languages of source and target."""
        return LanguageSide.of(self.config)

    def parallel(self, data: Path) -> Parallel:
        return parallel(self.config.corpus, self.config.languages, data)

    def prepare(self, data: Path) -> TaskInfo:
        self._parser = parser(self.config.parse, self.sides[1].to_lower, data) if self.config.parse else None
        info = super().prepare(data)
        score = self._parser.about.get("uas") if self._parser else None
        statistics = {"parser": {"uas": score}} if score is not None else {}
        return replace(info, extras={**info.extras, "statistics": {**info.extras["statistics"], **statistics}})

    def tokenize_lines(self, lines: tuple[Sequence[str], Sequence[str]]) -> Sequence[Sequence[str]]:
        return [side.tokenize(each) for side, each in zip(self.sides, lines, strict=True)]

    def reference(self, line: str) -> str:
        return self.sides[1].to_lower(line)

    def raw(self, line: str) -> str:
        """Return a line with single spaces, as seen by all tokenizers."""
        return " ".join(line.split())

    def text(self, tokens: list[int]) -> str:
        """Join tokens into plain text, like the raw lines of the corpus."""
        return self.sides[1].text([self.vocabulary[token] for token in tokens])

    def unsuitable(self, encoded: EncodedExamples) -> Mapping[str, Numbers]:
        assert isinstance(encoded.source, Ragged)
        source, target = encoded.source.lengths, encoded.target.lengths
        longest, limit = self.config.longest or np.inf, self.config.source_limit or np.inf
        shorter = np.maximum(1, np.minimum(source, target))
        uneven = encoded.longer > shorter * (self.config.ratio or np.inf)
        return {"long": (source > min(longest, limit)) | (target > longest), "uneven": uneven}

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, int]]:
        """Choose training pairs, apply `source_limit` to other splits, and add the heads of target tokens."""
        chosen, left_out = super().choose(split, encoded)
        most = self.config.examples
        if split != "train":
            chosen, left_out = self._apply_limit(chosen, lambda place: self.corpus.read(split)[0].place(place))
        elif most is not None and most < len(chosen):
            left_out["left_out_examples"] = len(chosen) - most
            chosen = chosen.take(evenly(np.arange(len(chosen)), most))
        return self._add_heads(split, [example.target for example in encoded.examples], chosen), left_out

    def fitted(self, encoded: EncodedExamples) -> EncodedExamples:
        def prompt_name(place: int) -> str:
            return f"prompt {(encoded.examples[place].id or 0) + 1}"

        return self._apply_limit(encoded, prompt_name)[0]

    def _apply_limit(
        self, rows: EncodedExamples, place_name: Callable[[int], str]
    ) -> tuple[EncodedExamples, dict[str, int]]:
        """Truncate sources over the limit if `over_limit: truncate`; otherwise raise DataError naming the first."""
        assert isinstance(rows.source, Ragged)
        limit, lengths = self.config.source_limit, rows.source.lengths
        over = np.flatnonzero(lengths > (limit or np.inf))
        if limit is None or not len(over):
            return rows, {"truncated": 0} if limit else {}
        if self.config.over_limit == "error":
            place, others = int(over[0]), f"; {len(over) - 1:,} other lines also exceed it" if len(over) > 1 else ""
            raise DataError(
                f"{place_name(place)} has {lengths[place]} tokens, more than the `source_limit` of {limit}{others}. "
                "Increase the limit, or set `over_limit: truncate`."
            )
        return replace(rows, source=Ragged.of(row[:limit] for row in rows.source)), {"truncated": len(over)}

    def _add_heads(self, split: Split, lines_of_split: Sequence[str], rows: EncodedExamples) -> EncodedExamples:
        """Add the heads of the target's tokens, if the split has trees."""
        numbers = [example.id for example in rows.examples if example.id is not None]
        trees = self._parser.heads(split, lines_of_split, numbers) if self._parser else None
        if trees is None:
            return rows
        lines = [example.target for example in rows.examples]
        line_widths = widths(lines, rows.encoder, spaces=self.config.tokenizer.target.kind == "char")
        heads = (spread(heads, token_counts) for heads, token_counts in zip(trees, line_widths, strict=True))
        return replace(rows, extras={"heads": Ragged.of(heads)})

    def about(self, data: Path) -> dict[str, Any]:
        source, target = self.config.languages
        lower = {"references": "lowercase"} if self.config.lowercase else {}
        best = {"entropy": 0.0} if isinstance(self.config.corpus, Invented) else {}  # nats per target token
        parse = {"parser": self._parser.about} if self._parser else {}
        languages = {"languages": {"source": source, "target": target}}
        return {**super().about(data), **lower, **languages, **best, **parse, **self._tags(data)}

    def _tags(self, data: Path) -> dict[str, Any]:
        """Return the parts of speech of words and the kind of target tokens, if `tags` is set."""
        if not self.config.tags:
            return {}
        tag_info = tags(self.config.tags, data, self.config.language, self.sides[1].to_lower)
        return {"tags": {**tag_info, "kind": self.config.tokenizer.target.kind}}


def widths(lines: Sequence[str], encoder: Encoder, spaces: bool) -> Iterable[list[int]]:
    """Return the number of tokens of each word in each line; with `spaces`, a space counts for the word after it."""
    types = sorted({word for line in lines for word in line.split()})
    width = {word: len(row) for word, row in zip(types, encoder.encode(types), strict=True)}
    return ([width[word] + (spaces and place > 0) for place, word in enumerate(line.split())] for line in lines)


def spread(heads: Sequence[int], widths: Sequence[int]) -> list[int]:
    """Map the heads of a target's words to heads of its tokens, EOS included; a root is its own head."""
    starts = [0, *accumulate(widths)]
    rows = ([starts[head], *[CONTINUES] * (width - 1)] for head, width in zip(heads, widths, strict=True))
    return [head for row in rows for head in row] + [PADDING]
