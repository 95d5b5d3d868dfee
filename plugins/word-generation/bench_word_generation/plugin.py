"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from string import ascii_lowercase
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from bench_core import Kind, MetricConfig, ModelConfig, Sampler, Scorer, TaskConfig, hookimpl
from bench_text.api import corpora
from bench_word_generation.settings import Corpus, HiddenMarkovWords
from bench_word_generation.spelling import alphabet_error

Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
Tokens: TypeAlias = Annotated[int, Field(gt=0, lt=2**53)]  # can be counted exactly in float64


class WordGenerationConfig(TaskConfig):
    """Generate words with their frequencies in a corpus (Schmidt and Hofmann, 2018)."""

    name, target = "word-generation", "bench_word_generation.generation:WordGeneration"
    inspector = "bench_word_generation.inspecting:inspect"
    cites = ["schmidt2018"]

    corpus: Corpus = Field("cpython-docs", validate_default=True)  #: a text, or a list of words and counts
    alphabet: str | None = ascii_lowercase  #: characters of words; null: letters of any script, with their marks
    outside: Literal["drop", "error"] = "drop"  #: whether words with other characters are excluded, or raise an error
    lowercase: bool = True  #: whether words are lower-cased, which adds the counts of equal words
    target_language: str | None = Field(None, pattern="^[a-z]{2,3}$")  #: ISO 639 code; tr, az, lt: own lower case
    shortest: PositiveInt = 2  #: minimum number of characters per word, marks included; shorter words are excluded
    longest: PositiveInt = 12  #: maximum number of characters per word, marks included; longer words are excluded
    min_count: PositiveInt = 10  #: minimum number of occurrences of a word
    types: PositiveInt | None = None  #: maximum number of types; the most frequent types are selected
    tokens: Tokens | None = None  #: size of a corpus sampled from the counts; by default, counts are used directly
    split: Literal["standard", "vocabulary"] = "standard"  #: whether test has a share of the tokens, or of the types
    test: Share = 0.1  #: share of the test split
    valid: Share = 0.02  #: share of valid among the tokens that are not in test
    seed: NonNegativeInt = 0  #: seed of the splits and of the sampled corpus
    epoch: PositiveInt = 100_000  #: number of words sampled per training epoch, at most the number of tokens
    samples: PositiveInt | None = None  #: number of rows to decode; by default determined by `unique`
    unique: Share = 0.27  #: expected share of distinct words in `samples` words of the training distribution

    @model_validator(mode="after")
    def _words_can_occur(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"`shortest` ({self.shortest}) must be at most `longest` ({self.longest})")
        if self.alphabet is not None and (error := alphabet_error(self.alphabet, self.lowercase, self.language)):
            raise ValueError(error)
        return self

    @model_validator(mode="after")
    def _has_known_probabilities(self) -> Self:
        """Refuse settings with which words of the corpus `hmm` would not have the probabilities of the model."""
        if not isinstance(self.corpus, HiddenMarkovWords):
            return self
        if self.min_count > 1 or self.types or self.tokens or self.split != "standard":
            raise ValueError(
                "words of the corpus `hmm` have known probabilities only if none is excluded or sampled again. Set "
                "`min_count: 1` and `split: standard`, and leave out `types` and `tokens`"
            )
        letters = self.corpus.letters
        if self.alphabet is not None and (absent := sorted({*letters} - {*self.alphabet})):
            raise ValueError(
                f"the alphabet lacks {len(absent)} of {len(letters)} letters of the corpus `hmm`, such as "
                f"{absent[0]!r}. Set `alphabet: null`, or fewer `symbols`"
            )
        return self

    def at(self, split: str | None) -> Self:
        """Return the Config that a split, or training (None), depends on; training has no rows to decode."""
        unread = ("samples", "unique") if split is None else () if split == "train" else ("epoch",)
        return self.model_copy(update={name: type(self).model_fields[name].default for name in unread})

    @property
    def language(self) -> str | None:
        return self.target_language

    @property
    def restriction(self) -> str:
        return corpora.restriction(getattr(self.corpus, "name", ""))

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of the list, or of each file of the corpus."""
        from bench_word_generation import word_counts  # only when data are read

        return word_counts.reads(self.corpus, data)


class WordOracleConfig(ModelConfig):
    """A model that uses the word frequencies of a split; no model of these words can outperform it."""

    name, target = "word-oracle", "bench_word_generation.oracle:WordOracle"
    capabilities = {Sampler, Scorer}
    likelihoods = {"exact": Kind.EXACT}
    cites = ["schmidt2018"]

    of: Literal["train", "test"] = "train"  #: split whose word frequencies are used


class ScoredWordsConfig(MetricConfig):
    """Base Config of metrics of scored words."""

    needs = Scorer
    cites = ["schmidt2018"]

    by: str | None = None  #: likelihood, by default the model's first likelihood
    against: Literal["train", "valid", "test"] | None = None  #: split of the word counts, by default the scored split
    value: str | None = None  #: reported log-probability that is used instead of the model's score
    floor: Annotated[float, Field(lt=0)] | None = None  #: words with a lower log-probability (nats) are omitted

    def exempt(self) -> Mapping[str, str]:
        return {"numbers_of_examples_do_not_matter": "the task info has the counts of words, by their ids"}


class WordCrossEntropyConfig(ScoredWordsConfig):
    """Cross-entropy per word, -sum_w P(w) ln P^(w), over the words that the model does not omit."""

    name, target = "word-cross-entropy", "bench_word_generation.likelihood:WordCrossEntropy"

    unit: Literal["nats", "bits"] = "nats"  #: unit of scores
    excess: bool = False  #: subtract the entropy of the same words, which is the minimum

    def bounds(self) -> tuple[float, float]:
        return -inf if self.excess else 0, inf


class LetterGainConfig(ScoredWordsConfig):
    """Gain in log-probability per word over independent letters, sum_w P(w) ln (P^(w) / P_letters(w)).

    It is 0 for a model that knows the frequencies of letters and nothing else.
    """

    name, target = "letter-gain", "bench_word_generation.likelihood:LetterGain"
    range = -inf, inf

    unit: Literal["nats", "bits"] = "nats"  #: unit of scores


class TrueExcessConfig(WordCrossEntropyConfig):
    """Excess of the cross-entropy per word over that of the model that generated the corpus `hmm`."""

    name, target = "true-excess", "bench_word_generation.word_bands:TrueExcess"

    excess: Literal[True] = True  #: subtract the cross-entropy of the true probabilities of the same words

    def bounds(self) -> tuple[float, float]:
        return -inf, inf


class BandCrossEntropyConfig(WordCrossEntropyConfig):
    """Cross-entropy per word of the words in a band of frequencies or lengths."""

    name, target = "band-cross-entropy", "bench_word_generation.word_bands:BandCrossEntropy"

    first_rank: PositiveInt = 1  #: rank of the most frequent word, by its count in the whole corpus
    last_rank: PositiveInt | None = None  #: rank of the least frequent word
    min_letters: PositiveInt = 1  #: minimum number of letters
    max_letters: PositiveInt | None = None  #: maximum number of letters

    @model_validator(mode="after")
    def _check_band(self) -> Self:
        for least, most in (("first_rank", "last_rank"), ("min_letters", "max_letters")):
            first, last = getattr(self, least), getattr(self, most)
            if last is not None and first > last:
                raise ValueError(f"`{least}` ({first}) must be at most `{most}` ({last})")
        return self


class OmittedMassConfig(ScoredWordsConfig):
    """Share of the tokens whose words have probability 0, or a probability below a floor."""

    name, target = "omitted-mass", "bench_word_generation.likelihood:OmittedMass"
    range = 0, 1


class KnownWordsConfig(MetricConfig):
    """Share of outputs that are corpus words, or number of distinct corpus words divided by number of outputs."""

    name, target = "known-words", "bench_word_generation.known_words:KnownWords"
    range = 0, 1
    cites = ["schmidt2018"]

    of: Literal["train", "valid", "test", "all"] = "train"  #: splits whose words are known
    unique: bool = False  #: count each word once


class NGramPerplexityConfig(MetricConfig):
    """Perplexity per letter of outputs under letter n-grams of the corpus with Witten-Bell smoothing (1991)."""

    name, target = "ngram-perplexity", "bench_word_generation.ngrams:NGramPerplexity"
    range = 1, inf
    cites = ["witten1991", "schmidt2018"]

    n: PositiveInt = 3  #: number of letters of an n-gram
    of: Literal["train", "valid", "test", "all"] = "all"  #: splits whose tokens are counted


class MutualInformationConfig(MetricConfig):
    """Mutual information of a letter and its noise, I(w_t; noise_t | previous state), as reported by the model."""

    name, target = "mutual-information", "bench_word_generation.trajectory_metrics:MutualInformation"
    range = 0, inf
    cites = ["schmidt2018"]

    position: PositiveInt | None = None  #: t, counted from 1; default: the mean over positions
    until_stop: bool = False  #: average over the positions up to the end of each output, instead of all positions

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if self.position is not None and self.until_stop:
            raise ValueError("`until_stop` needs a mean over positions. Remove `until_stop` or `position`")
        return self


class LetterEntropyConfig(MetricConfig):
    """Entropy of a letter given the state, H[w_t | h_t], as reported by the model."""

    name, target = "letter-entropy", "bench_word_generation.trajectory_metrics:LetterEntropy"
    range = 0, inf
    cites = ["schmidt2018"]

    position: PositiveInt | None = None  #: t, counted from 1; default: the mean over positions


class StateKLConfig(ScoredWordsConfig):
    """KL divergence of the inferred state from the prior, as reported by the model, over words that reach a step.

    It is 0 if inference has nothing to say about the letters.
    """

    name, target = "state-kl", "bench_word_generation.state_kl:StateKL"
    range = -inf, inf

    position: PositiveInt | None = None  #: t, counted from 1; default: the mean over positions
    unit: Literal["nats", "bits"] = "bits"  #: unit of scores


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the task's Config."""
    return [WordGenerationConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the oracle's Config."""
    return [WordOracleConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the Configs of the metrics of scored and generated words."""
    return [
        WordCrossEntropyConfig,
        LetterGainConfig,
        TrueExcessConfig,
        BandCrossEntropyConfig,
        OmittedMassConfig,
        KnownWordsConfig,
        NGramPerplexityConfig,
        MutualInformationConfig,
        LetterEntropyConfig,
        StateKLConfig,
    ]
