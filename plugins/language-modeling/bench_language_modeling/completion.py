"""The sentence completion task: generate the rest of a sentence from its first tokens."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bench_core import STOP, DataError, Split, TaskInfo
from bench_language_modeling import corpus
from bench_language_modeling.plugin import SequenceCompletionConfig
from bench_language_modeling.sentences import sentences
from bench_text.api import (
    UNKNOWN,
    Asked,
    EncodedExamples,
    Encoder,
    Example,
    Pretrained,
    Ragged,
    SequenceTask,
    StoredExamples,
    token_statistics,
)

MIN_SENTENCES = 5  # in each split


class SequenceCompletion(SequenceTask):
    """Prefixes of k tokens, and the rest of their sentences (Welleck et al., 2020, section 5).

    Sentences of fewer than k tokens are left-padded with `<cpad>`. References are the text of the corpus after the
    prefix. The additional split `random` has no references; its prefixes are k tokens sampled uniformly from all
    tokens except special tokens.
    """

    config: SequenceCompletionConfig

    def prepare(self, data: Path) -> TaskInfo:
        self._corpus = corpus.text(self.config.corpus, data)
        info = super().prepare(data)
        if "test" in self.splits:
            self._save_random(self.target_encoder.ordinary, len(self.references("test")))
        return info

    @property
    def splits(self) -> Sequence[Split]:
        return self.config.corpus.splits

    def examples(self, split: Split, data: Path) -> Iterator[tuple[None, str]]:
        return ((None, sentence) for sentence in sentences(self._corpus, split, self.config.sentences))

    def encoders(self, data: Path, found: Mapping[Split, Sequence[Example]]) -> tuple[None, Encoder]:
        """Learn words from train and valid; without `short: pad`, pretrained models need no room for `<cpad>`."""
        train, valid = ([example.target for example in found.get(split, ())] for split in ("train", "valid"))
        pad = not isinstance(self.config.tokenizer, Pretrained) or self.config.short == "pad"
        return None, self.encoder(self.config.tokenizer, data, train, valid, pad)

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, Any]]:
        """Exclude sentences by length, as configured; raise DataError if fewer than MIN_SENTENCES are left."""
        lengths = encoded.target.lengths
        shortest = self.config.prefix + 1 if self.config.short == "drop" else 0
        rows = np.flatnonzero((shortest <= lengths) & (lengths <= (self.config.longest or np.inf)))
        if len(rows) < MIN_SENTENCES:
            raise DataError(
                f"the {split} split of {self._corpus.name} has {len(rows)} sentences to complete (out of "
                f"{len(lengths)}); at least {MIN_SENTENCES} are needed. Choose a larger corpus, or set `short: pad`."
            )
        return encoded.take(rows).renumbered(), {}

    def statistics(self, encoded: EncodedExamples) -> dict[str, Any]:
        return {"sentences": len(encoded), **token_statistics(encoded.target, encoded.encoder.unknown)}

    def about(self, data: Path) -> dict[str, Any]:
        compared = {} if self.config.references == "text" else {"references": self.config.references}
        return {**self._corpus.about, **compared}

    def _save_random(self, ordinary: Sequence[int], number: int) -> None:
        """Sample prefixes of tokens that are not special (EOS, `<unk>` and `<cpad>`), and write them."""
        random = Random("random contexts")
        number = number if self.config.random_contexts is None else self.config.random_contexts
        length = range(self.config.prefix)
        rows = ([*[ordinary[int(random.random() * len(ordinary))] for _ in length], STOP] for _ in range(number))
        StoredExamples(np.arange(number), Ragged.of(rows)).save(self.folder, "random")
        self._save_texts("random", (Asked(place, [], None) for place in range(number)))

    def text(self, tokens: list[int]) -> str:
        return self.join(tokens, UNKNOWN) if self.config.references == "tokens" else super().text(tokens)

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the continuation of each prefix: the corpus text, or its tokens as text; `random` has none."""
        if self.config.references == "text" or split == "random":
            return super().references(split)
        rows = StoredExamples.load(self.folder, split).target
        return {place: [self.text(row[self.prefix : -1])] for place, row in enumerate(rows)}

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return the prefixes as corpus text; with `references: tokens`, return an empty dict."""
        return super().sources(split) if self.config.references == "text" else {}

    def separators(self, split: Split) -> Mapping[int, str]:
        """Return corpus separators; for `references: tokens`, "" if tokens are characters, else an empty dict."""
        if self.config.references == "text":
            return super().separators(split)
        return dict.fromkeys(self.references(split), "") if self.config.tokenizer.kind == "char" else {}
