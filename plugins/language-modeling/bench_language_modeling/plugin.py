"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal, Self

from pydantic import NonNegativeInt, PositiveInt, model_validator

from bench_core import Purpose, TaskConfig, hookimpl
from bench_core.files import digests_of
from bench_language_modeling import corpus
from bench_language_modeling.settings import Corpus, Named
from bench_text.api import CorpusTaskConfig, Tokenizer, Words, tokenizer_digests


class TokenizedConfig(CorpusTaskConfig):
    """What the tasks of this plugin have in common."""

    corpus: Corpus = Named(name="cpython-docs")  #: the text: a name, a generated one with its settings, or files
    tokenizer: Tokenizer = Words()  #: what text is cut into: `word`, `char`, `bpe` or `pretrained`

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of each file of the corpus, generated ones have none, and of a pretrained tokenizer."""
        return digests_of(lambda: corpus.reads(self.corpus, data), lambda: tokenizer_digests(self.tokenizer, data))


class SequenceCompletionConfig(TokenizedConfig):
    """Completion of sentences from a prefix of k tokens (Welleck et al., 2020, arXiv:2002.02492)."""

    name, target = "sequence-completion", "bench_language_modeling.completion:SequenceCompletion"
    inspector = "bench_language_modeling.inspecting:inspect_completion"
    cites = ["welleck2020consistency", "sentences=spacy: honnibal2020", "tokenizer.kind=bpe: sennrich2016"]

    prefix: NonNegativeInt = 10  # k
    sentences: Literal["spacy", "rule", "lines"] = "rule"  # how paragraphs are cut
    short: Literal["pad", "drop"] = "pad"  # what happens to a sentence without a continuation
    longest: PositiveInt | None = None  # tokens of a sentence; longer ones are left out
    random_contexts: NonNegativeInt | None = None  # prefixes of the split `random`; as many as in test
    references: Literal["text", "tokens"] = "text"  #: compared with outputs; `tokens` has `<unk>` for rare words

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if "random" in self.test_sets:
            raise ValueError("a test set cannot be called 'random', which is a split already: rename it")
        return self

    def extras(self) -> Set[str]:
        """Return spaCy's, where it cuts sentences."""
        return {"spacy"} if self.sentences == "spacy" else set()

    def at(self, split: str | None) -> Self:
        """Return what a split depends on, or what trainings do; `random` goes with test, whose size it may have."""
        if split == "random":
            return super().at("test")
        found = super().at(split).model_copy(update={"random_contexts": 0})
        return found.model_copy(update={"references": "text"}) if split is None else found

    def purposes(self, split: str) -> Set[Purpose]:
        """Return DECODE alone for `random`, whose prefixes have no continuation."""
        if split == "random":
            return {Purpose.DECODE} if self.corpus.has("test") else set()
        return super().purposes(split)


class LanguageModelingConfig(TokenizedConfig):
    """Next tokens of a long stream, in windows for back-propagation through time."""

    name, target = "language-modeling", "bench_language_modeling.stream:LanguageModeling"
    inspector = "bench_language_modeling.inspecting:inspect_stream"
    cites = ["zhang2021dive", "tokenizer.kind=bpe: sennrich2016"]

    window: PositiveInt = 35  #: tokens through which gradients go back at once
    partition: Literal["sequential", "random"] = "sequential"  # random: windows stand alone, shuffled, at an offset
    parts: PositiveInt = 1  #: equal parts that an evaluation reads, each from its beginning; 1: the whole stream
    stops: bool | None = None  # whether each line is followed by a stop; as is usual for the corpus

    @model_validator(mode="after")
    def _parts_are_read_in_a_row(self) -> Self:
        if self.parts > 1 and self.partition == "random":
            raise ValueError("with `partition: random` windows stand alone: leave out `parts`")
        return self

    def purposes(self, split: str) -> Set[Purpose]:
        """Return all but DECODE: a stream has no prefixes."""
        return super().purposes(split) - {Purpose.DECODE}


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks of this plugin."""
    return [LanguageModelingConfig, SequenceCompletionConfig]
