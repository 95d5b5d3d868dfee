"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal, Self

from pydantic import NonNegativeInt, PositiveInt, model_validator

from bench_core import Purpose, TaskConfig, hookimpl
from bench_core.files import digests_of
from bench_language_modeling.settings import Corpus, NamedText
from bench_text.api import CorpusTaskConfig, Tokenizer, Words


class TokenizedConfig(CorpusTaskConfig):
    """Base Config of tasks on a tokenized text corpus."""

    corpus: Corpus = NamedText.model_construct(name="cpython-docs")  #: corpus: a name, a name with settings, or files
    tokenizer: Tokenizer = Words.model_construct()  #: `word`, `char`, `bpe`, `pretrained`, or a mapping with settings

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digests of the files of the corpus and of a pretrained tokenizer."""
        from bench_language_modeling import corpus  # only when data are read
        from bench_text.api import tokenizer_digests

        return digests_of(lambda: corpus.reads(self.corpus, data), lambda: tokenizer_digests(self.tokenizer, data))


class SequenceCompletionConfig(TokenizedConfig):
    """Completion of sentences from their first k tokens (Welleck et al., 2020, arXiv:2002.02492)."""

    name, target = "sequence-completion", "bench_language_modeling.completion:SequenceCompletion"
    inspector = "bench_language_modeling.inspecting:inspect_completion"
    cites = ["welleck2020consistency", "sentences=spacy: honnibal2020", "tokenizer.kind=bpe: sennrich2016"]

    prefix: NonNegativeInt = 10  #: k, number of tokens in a prefix
    sentences: Literal["spacy", "rule", "lines"] = "rule"  #: how paragraphs are split into sentences
    short: Literal["pad", "drop"] = "pad"  #: whether sentences of at most k tokens are padded or excluded
    longest: PositiveInt | None = None  #: maximum number of tokens of a sentence; longer sentences are excluded
    random_contexts: NonNegativeInt | None = None  #: number of prefixes in the split `random`; default: size of test
    references: Literal["text", "tokens"] = "text"  #: compared with outputs; in `tokens`, rare words are `<unk>`

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if "random" in self.test_sets:
            raise ValueError("a test set cannot be called 'random', which is the name of a split. Rename it")
        return self

    def extras(self) -> Set[str]:
        """Return the extra `spacy` if spaCy splits sentences."""
        return {"spacy"} if self.sentences == "spacy" else set()

    def at(self, split: str | None) -> Self:
        """Return the Config that a split, or training (None), depends on; `random` depends on the size of test."""
        if split == "random":
            return super().at("test")
        config = super().at(split).model_copy(update={"random_contexts": 0})
        return config.model_copy(update={"references": "text"}) if split is None else config

    def purposes(self, split: str) -> Set[Purpose]:
        """Return only DECODE for `random`, whose prefixes have no continuation."""
        if split == "random":
            return {Purpose.DECODE} if self.corpus.has("test") else set()
        return super().purposes(split)


class LanguageModelingConfig(TokenizedConfig):
    """Prediction of the next token in a long stream, divided into windows for back-propagation through time."""

    name, target = "language-modeling", "bench_language_modeling.stream:LanguageModeling"
    inspector = "bench_language_modeling.inspecting:inspect_stream"
    cites = ["zhang2021dive", "tokenizer.kind=bpe: sennrich2016"]

    window: PositiveInt = 35  #: tokens per row, through which gradients are propagated
    partition: Literal["sequential", "random"] = "sequential"  #: random: independent, shuffled windows with an offset
    parts: PositiveInt = 1  #: equal parts of the stream that evaluation reads in parallel, each from its start
    stops: bool | None = None  #: whether EOS follows each line; default: depends on the corpus

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self.parts > 1 and self.partition == "random":
            raise ValueError("windows are independent with `partition: random`. Remove `parts`")
        return self

    def purposes(self, split: str) -> Set[Purpose]:
        """Return all purposes except DECODE, because a stream has no prompts."""
        return super().purposes(split) - {Purpose.DECODE}


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks of this plugin."""
    return [LanguageModelingConfig, SequenceCompletionConfig]
