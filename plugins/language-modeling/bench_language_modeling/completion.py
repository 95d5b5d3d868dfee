"""The sentence completion task: continue the first words of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from random import Random

import numpy as np
import torch

from bench_core import STOP, Batch, DataError, Noise, Purpose, Size, Split, TaskInfo
from bench_language_modeling import corpus
from bench_language_modeling.plugin import SequenceCompletionConfig
from bench_language_modeling.ragged import Ragged, bucketed, cut, padded, shuffled
from bench_language_modeling.sentences import SPLITTERS, by_line
from bench_language_modeling.settings import Pretrained
from bench_language_modeling.text import SPLITS, Text
from bench_language_modeling.tokenized import Tokenized, statistics
from bench_language_modeling.tokens import PAD, UNKNOWN

FEWEST = 5  # sentences that a split must have


class SequenceCompletion(Tokenized):
    """A prefix of k tokens, and the rest of its sentence (Welleck et al., 2020, section 5).

    A sentence shorter than k has `<cpad>` on its left. References are the text of the corpus after the prefix.
    Besides the usual splits, `random` has prefixes of k tokens drawn uniformly from all but the special ones, and no
    references.
    """

    config: SequenceCompletionConfig

    def prepare(self, data: Path) -> TaskInfo:
        text = corpus.text(self.config.corpus, data)
        sentences = {split: self._sentences(text, split) for split in SPLITS}
        given = isinstance(self.config.tokenizer, Pretrained)  # its model may have no room for a token more
        pad = not given or self.config.short == "pad"
        encoder = self._encoder(data, sentences["train"], sentences["valid"], pad)
        rows, size = {}, len(encoder.vocabulary)
        for split in SPLITS:
            lines, rows[split] = self._kept(
                sentences[split], Ragged.of(encoder.encode(sentences[split])), split, text
            )
            self._examples(rows[split], size - 1).save(self.folder, split)
            rest = "\n".join(encoder.rest(lines, rows[split], self.config.prefix))
            self._file(split).write_bytes(rest.encode())
        found = {split: statistics(rows[split], "sentences", encoder) for split in SPLITS}
        self._random(encoder.ordinary, len(rows["test"])).save(self.folder, "random")
        counts = np.bincount(rows["train"].tokens, minlength=size)
        counts[STOP] = len(rows["train"])
        compared = {} if self.config.references == "text" else {"references": self.config.references}
        return self._facts(text, encoder, counts.tolist(), {"statistics": found, **compared})

    def _sentences(self, text: Text, split: Split) -> list[str]:
        splitter = by_line if text.sentences else SPLITTERS[self.config.sentences]
        return list(splitter(text.paragraphs(split)))

    def _kept(self, lines: list[str], rows: Ragged, split: Split, text: Text) -> tuple[list[str], Ragged]:
        """Leave out what is too long or has no continuation, if so wished; raise DataError if too little is left."""
        shortest = self.config.prefix + 1 if self.config.short == "drop" else 0
        longest = self.config.longest or np.inf
        kept = [shortest <= length <= longest for length in rows.lengths]
        if sum(kept) < FEWEST:
            raise DataError(
                f"the {split} split of {text.name} has {sum(kept)} sentences to complete, of {len(rows)}; at least "
                f"{FEWEST} are needed. Choose a larger corpus, or `short: pad`."
            )
        return list(compress(lines, kept)), Ragged.of(compress(rows, kept))

    def _examples(self, rows: Ragged, pad: int) -> Ragged:
        """Bring every sentence to at least k tokens, and end it."""
        return Ragged.of([*[pad] * (self.config.prefix - len(row)), *row, STOP] for row in rows)

    def _random(self, ordinary: Sequence[int], number: int) -> Ragged:
        """Draw prefixes of tokens that are not special: neither stop, nor `<unk>`, nor `<cpad>`."""
        random = Random("random contexts")
        number = number if self.config.random_contexts is None else self.config.random_contexts
        length = range(self.config.prefix)
        return Ragged.of(
            [*[ordinary[int(random.random() * len(ordinary))] for _ in length], STOP] for _ in range(number)
        )

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        """Yield a prefix and its continuation a row; a size in tokens counts continuations, padded as they are."""
        table, k = Ragged.load(self.folder, split), self.config.prefix
        lengths = table.lengths - k
        if noise and purpose == Purpose.TRAIN:
            groups = bucketed(lengths, size, noise)
        else:
            order = shuffled(len(table), noise)
            groups = cut(order, lengths[order], size)
        for rows in groups:
            starts, ends = table.edges[rows], table.edges[rows + 1]
            prefix = padded(table.tokens, starts, starts + k)
            yield Batch(
                ids=torch.from_numpy(rows),
                opening=torch.cat([prefix.new_full((len(rows), 1), STOP), prefix], 1),
                gold=padded(table.tokens, starts + k, ends),
                length=torch.from_numpy(lengths[rows]),
            )

    def prompt(self, tokens: list[int]) -> str:
        """Leave out the padding on the left."""
        return self.text([token for token in tokens if self.vocabulary[token] != PAD])

    def text(self, tokens: list[int]) -> str:
        return self.said(tokens, UNKNOWN) if self.config.references == "tokens" else super().text(tokens)

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the one continuation of each prefix, as the corpus has it; there is none in `random`."""
        rows = Ragged.load(self.folder, split)
        if split == "random":
            return {place: [] for place in range(len(rows))}
        if self.config.references == "tokens":
            return {place: [self.text(row[self.config.prefix : -1])] for place, row in enumerate(rows)}
        lines = self._file(split).read_bytes().decode().split("\n")
        return {place: [line] for place, line in enumerate(lines)}

    def _file(self, split: Split) -> Path:
        return self.folder / f"{split}.rest.txt"
