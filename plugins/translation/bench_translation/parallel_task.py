"""Code shared by tasks on parallel corpora."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench_core import DataError, Split, TaskInfo
from bench_text.api import EncodedExamples, Example, Numbers, SequenceTask, join
from bench_translation.corpus import CorpusLines, Parallel

MIN_TRAINING_PAIRS = 2


class ParallelTask(SequenceTask):
    """Pairs of lines; both sides end with EOS, which both lengths include.

    The id of a pair is its line number, counted from 0. All pairs of valid and test are decoded and scored; only
    training pairs are filtered.
    """

    counted = "pairs"
    limits: Sequence[str] = ("longest",)  #: settings that exclude training pairs

    @abstractmethod
    def parallel(self, data: Path) -> Parallel:
        """Return the corpus."""

    def prepare(self, data: Path) -> TaskInfo:
        self.corpus = self.parallel(data)
        return super().prepare(data)

    @property
    def splits(self) -> Sequence[Split]:
        return self.corpus.splits

    @property
    def tokenizers(self) -> tuple[Any, Any]:
        return self.config.tokenizer.source, self.config.tokenizer.target

    def tokenize_lines(self, lines: tuple[Sequence[str], Sequence[str]]) -> Sequence[Sequence[str]]:
        """Return the lines of both sides with spaces between tokens; by default unchanged."""
        return lines

    def normalized(self, prompts: Sequence[str], targets: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        source, target = self.tokenize_lines((prompts, targets))
        return source, target

    def reference(self, line: str) -> str:
        """Return the reference for a target line; by default the line itself."""
        return line

    def raw(self, line: str) -> str:
        """Return the raw text of a target line, for counting bytes; by default, the line itself."""
        return line

    def examples(self, split: Split, data: Path) -> Iterator[Example]:
        source, target = self.corpus.read(split)
        pairs = [*zip(*self.tokenize_lines((source.texts, target.texts)), strict=True)]
        if split != "train":
            _check_full(split, pairs, (source, target))
        more = [lines.texts for lines in self.corpus.more(split)]
        for number, ((source_line, target_line), raw, first, *others) in enumerate(
            zip(pairs, source.texts, target.texts, *more, strict=True)
        ):
            references = [self.reference(line) for line in (first, *filter(str.strip, others))]
            example = Example(source_line, target_line, references, id=number, source_text=raw, raw=self.raw(first))
            yield example if source_line and target_line else example._replace(purposes=frozenset())

    def unsuitable(self, encoded: EncodedExamples) -> Mapping[str, Numbers]:
        """Return masks, bool [R], of pairs that are unsuitable for training, keyed by adjective, such as `long`."""
        return {"long": encoded.longer > (self.config.longest or np.inf)}

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, int]]:
        """Exclude empty and unsuitable training pairs; raise DataError if too few are left."""
        if split != "train":
            return encoded, {}
        usable, left_out = encoded.trains, {"left_out_empty": int((~encoded.trains).sum())}
        for why, pairs in self.unsuitable(encoded).items():
            left_out[f"left_out_{why}"] = int((usable & pairs).sum())
            usable = usable & ~pairs
        if usable.sum() < MIN_TRAINING_PAIRS:
            reasons = [f"{left_out[f'left_out_{why}']:,} are too {why}" for why in self.unsuitable(encoded)]
            settings = " or ".join(f"`{name}`" for name in self.limits)
            raise DataError(
                f"only {usable.sum()} of {encoded.trains.sum():,} nonempty training pairs of {self.corpus.name} can "
                f"be used; {' and '.join(reasons)}. Change {settings}, or choose a larger corpus."
            )
        return encoded.take(np.flatnonzero(usable)), left_out

    def about(self, data: Path) -> dict[str, Any]:
        return {
            "corpus": self.corpus.labels or self.corpus.name,
            "embedded": self.corpus.embedded,
            "shared": self.config.shared,
        }

    def text(self, tokens: list[int]) -> str:
        """Return the text of tokens, with single spaces as the only whitespace."""
        words = join(self.config.tokenizer.target.kind, [self.vocabulary[token] for token in tokens])
        return " ".join(words.split())


def _check_full(split: Split, pairs: Sequence[tuple[str, str]], sides: tuple[CorpusLines, CorpusLines]) -> None:
    """Raise DataError naming the first pair with an empty line."""
    empty = [number for number, pair in enumerate(pairs) if not all(pair)]
    if empty:
        where = [lines.place(empty[0]) for lines, line in zip(sides, pairs[empty[0]], strict=True) if not line]
        others = f"; other incomplete pairs: {len(empty) - 1:,}" if len(empty) > 1 else ""
        raise DataError(
            f"empty lines: {' and '.join(where)}{others}. Every pair in {split} is used: fill in these lines, or "
            "remove them from both files."
        )
