"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from bench_core import Kind, MetricConfig, ModelConfig, Sampler, Scorer, TaskConfig, hookimpl
from bench_text.api import corpora
from bench_word_generation import word_counts as counted
from bench_word_generation.settings import Corpus

Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
Tokens: TypeAlias = Annotated[int, Field(gt=0, lt=2**53)]  # as many as a float can count


class WordGenerationConfig(TaskConfig):
    """Spelling of words from nothing, each as often as in a corpus (Schmidt and Hofmann, 2018)."""

    name, target = "word-generation", "bench_word_generation.generation:WordGeneration"
    inspector = "bench_word_generation.inspecting:inspect"
    cites = ["schmidt2018"]

    corpus: Corpus = Field("cpython-docs", validate_default=True)  #: a text, or a list of words and counts
    alphabet: str | None = ascii_lowercase  #: its characters; None takes every letter that occurs
    outside: Literal["drop", "error"] = "drop"  #: what happens to words with other characters
    lowercase: bool = True  #: whether words that are the same in lower case are one
    shortest: PositiveInt = 2  #: letters of a word; shorter ones are left out
    longest: PositiveInt = 12  #: letters of a word; longer ones are left out
    min_count: PositiveInt = 10  #: the fewest occurrences of a word that is kept
    types: PositiveInt | None = None  #: keep at most so many words, the most frequent ones
    tokens: Tokens | None = None  #: of a corpus to be drawn from the counts; by default they are taken as they are
    split: Literal["standard", "vocabulary"] = "standard"  #: whether test has a share of the tokens, or of the types
    test: Share = 0.1  #: that share
    valid: Share = 0.02  #: of the tokens that test leaves
    seed: NonNegativeInt = 0  #: of what is drawn for the splits
    epoch: PositiveInt = 100_000  #: words drawn for an epoch of training, but no more than there are tokens
    samples: PositiveInt | None = None  #: rows to decode; by default `unique` decides
    unique: Share = 0.27  #: different words among as many, were they drawn from the training distribution

    @model_validator(mode="after")
    def _words_can_occur(self) -> Self:
        letters = self.alphabet
        if self.shortest > self.longest:
            raise ValueError(f"no word has at least {self.shortest} letters and at most {self.longest}")
        if letters is None:
            return self
        if not letters or len(set(letters)) < len(letters) or any(letter.isspace() for letter in letters):
            raise ValueError(f"an alphabet has every character once and no white space; it is {letters!r}")
        upper = [letter for letter in letters if letter.lower() != letter]
        if self.lowercase and upper:
            raise ValueError(
                f"{''.join(upper)!r} of the alphabet cannot occur in words that are lower-cased. Leave it out, or "
                "set `lowercase: false`"
            )
        return self

    def at(self, split: str | None) -> Self:
        """Return what a split depends on, or what trainings do: all words, and no rows to decode."""
        unread = ("samples", "unique") if split is None else () if split == "train" else ("epoch",)
        return self.model_copy(update={name: type(self).model_fields[name].default for name in unread})

    @property
    def restriction(self) -> str:
        return corpora.restriction(getattr(self.corpus, "name", ""))

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of the list, or of each file of the corpus."""
        return counted.reads(self.corpus, data)


class WordOracleConfig(ModelConfig):
    """The words of a split themselves, each as often as there: what no model of them can do better than."""

    name, target = "word-oracle", "bench_word_generation.oracle:WordOracle"
    capabilities = {Sampler, Scorer}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["schmidt2018"]

    of: Literal["train", "test"] = "train"  #: the split whose words they are


class ScoredWordsConfig(MetricConfig):
    """What metrics of scored words share."""

    needs = Scorer
    cites = ["schmidt2018"]

    by: str | None = None  #: which of the model's likelihoods; by default its first
    against: Literal["train", "valid", "test"] | None = None  #: whose counts words weigh by; of the split scored
    value: str | None = None  #: a log-probability that the model reports besides, to take in place of its score
    floor: Annotated[float, Field(lt=0)] | None = None  #: nats; words with less count as omitted

    def exempt(self) -> Mapping[str, str]:
        return {"numbers_of_examples_do_not_matter": "the counts of words are facts of the task, by their numbers"}


class WordCrossEntropyConfig(ScoredWordsConfig):
    """Cross entropy a word, -sum_w P(w) ln P^(w), over the words that the model does not omit."""

    name, target = "word-cross-entropy", "bench_word_generation.likelihood:WordCrossEntropy"

    unit: Literal["nats", "bits"] = "nats"  #: of the numbers
    excess: bool = False  #: less the entropy of the same words, which is the least that can be

    def bounds(self) -> tuple[float, float]:
        return -inf if self.excess else 0, inf


class OmittedMassConfig(ScoredWordsConfig):
    """Share of the tokens whose words have no probability, or less than a floor."""

    name, target = "omitted-mass", "bench_word_generation.likelihood:OmittedMass"
    range = 0, 1


class KnownWordsConfig(MetricConfig):
    """Share of outputs that are words of the corpus, or, of so many outputs, of different such words."""

    name, target = "known-words", "bench_word_generation.known_words:KnownWords"
    range = 0, 1
    cites = ["schmidt2018"]

    of: Literal["train", "valid", "test", "all"] = "train"  #: the splits whose words they may be
    unique: bool = False  #: count each word once


class NGramPerplexityConfig(MetricConfig):
    """Perplexity a letter of outputs, by letter n-grams of the corpus with Witten and Bell's smoothing (1991)."""

    name, target = "ngram-perplexity", "bench_word_generation.ngrams:NGramPerplexity"
    range = 1, inf
    cites = ["witten1991", "schmidt2018"]

    n: PositiveInt = 3  #: letters of an n-gram
    of: Literal["train", "valid", "test", "all"] = "all"  #: the splits whose tokens are counted


class MutualInformationConfig(MetricConfig):
    """How much a letter tells of the noise behind it, I(w_t; noise_t | state before), as the model reports it."""

    name, target = "mutual-information", "bench_word_generation.trajectory_metrics:MutualInformation"
    range = 0, inf
    cites = ["schmidt2018"]

    position: PositiveInt | None = None  #: t, the first letter being 1; the mean over positions
    until_stop: bool = False  #: mean over the positions up to each output's end, instead of all

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if self.position is not None and self.until_stop:
            raise ValueError("`until_stop` is of a mean, not of one position. Leave one of both out")
        return self


class LetterEntropyConfig(MetricConfig):
    """How open the letter is once the state is known, H[w_t | h_t], as the model reports it."""

    name, target = "letter-entropy", "bench_word_generation.trajectory_metrics:LetterEntropy"
    range = 0, inf
    cites = ["schmidt2018"]

    position: PositiveInt | None = None  #: t, the first letter being 1; the mean over positions


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the task."""
    return [WordGenerationConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the oracle."""
    return [WordOracleConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of words, scored and generated."""
    return [
        WordCrossEntropyConfig,
        OmittedMassConfig,
        KnownWordsConfig,
        NGramPerplexityConfig,
        MutualInformationConfig,
        LetterEntropyConfig,
    ]
