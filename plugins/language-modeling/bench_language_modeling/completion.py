"""The sentence completion task: continue the first words of a sentence."""

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

FEWEST = 5  # sentences that a split must have


class SequenceCompletion(SequenceTask):
    """A prefix of k tokens, and the rest of its sentence (Welleck et al., 2020, section 5).

    A sentence shorter than k has `<cpad>` on its left. References are the text of the corpus after the prefix.
    Besides the usual splits, `random` has prefixes of k tokens drawn uniformly from all but the special ones, and no
    references.
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
        """Learn words from the valid split too; a pretrained model may have no room for a token to pad with."""
        train, valid = ([example.target for example in found.get(split, ())] for split in ("train", "valid"))
        pad = not isinstance(self.config.tokenizer, Pretrained) or self.config.short == "pad"
        return None, self.encoder(self.config.tokenizer, data, train, valid, pad)

    def choose(self, split: Split, encoded: EncodedExamples) -> tuple[EncodedExamples, dict[str, Any]]:
        """Leave out what is too long or has no continuation, if so wished; raise DataError if too little is left."""
        lengths = encoded.target.lengths
        shortest = self.config.prefix + 1 if self.config.short == "drop" else 0
        kept = np.flatnonzero((shortest <= lengths) & (lengths <= (self.config.longest or np.inf)))
        if len(kept) < FEWEST:
            raise DataError(
                f"the {split} split of {self._corpus.name} has {len(kept)} sentences to complete, of {len(lengths)}; "
                f"at least {FEWEST} are needed. Choose a larger corpus, or `short: pad`."
            )
        return encoded.take(kept).renumbered(), {}

    def statistics(self, encoded: EncodedExamples) -> dict[str, Any]:
        return {"sentences": len(encoded), **token_statistics(encoded.target, encoded.encoder.unknown)}

    def about(self, data: Path) -> dict[str, Any]:
        compared = {} if self.config.references == "text" else {"references": self.config.references}
        return {**self._corpus.about, **compared}

    def _save_random(self, ordinary: Sequence[int], number: int) -> None:
        """Draw prefixes of tokens that are not special: neither stop, nor `<unk>`, nor `<cpad>`."""
        random = Random("random contexts")
        number = number if self.config.random_contexts is None else self.config.random_contexts
        length = range(self.config.prefix)
        rows = ([*[ordinary[int(random.random() * len(ordinary))] for _ in length], STOP] for _ in range(number))
        StoredExamples(np.arange(number), Ragged.of(rows)).save(self.folder, "random")
        self._save_texts("random", (Asked(place, [], None) for place in range(number)))

    def text(self, tokens: list[int]) -> str:
        return self.join(tokens, UNKNOWN) if self.config.references == "tokens" else super().text(tokens)

    def references(self, split: Split) -> Mapping[int, Sequence[str]]:
        """Return the one continuation of each prefix, of the corpus or of its tokens; there is none in `random`."""
        if self.config.references == "text" or split == "random":
            return super().references(split)
        rows = StoredExamples.load(self.folder, split).target
        return {place: [self.text(row[self.prefix : -1])] for place, row in enumerate(rows)}

    def sources(self, split: Split) -> Mapping[int, str]:
        """Return prefixes as the corpus has them, unless the texts of tokens count."""
        return super().sources(split) if self.config.references == "text" else {}

    def separators(self, split: Split) -> Mapping[int, str]:
        """Return what stands after prefixes in the corpus; nothing does between the texts of characters."""
        if self.config.references == "text":
            return super().separators(split)
        return dict.fromkeys(self.references(split), "") if self.config.tokenizer.kind == "char" else {}
