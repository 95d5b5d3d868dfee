"""What this distribution offers; imports no torch."""

from __future__ import annotations

from collections.abc import Set
from typing import Literal, Self, TypeAlias

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from bench_core import MetricConfig, Scorer, hookimpl

supports = (1, 1)

# those of sacrebleu that download nothing
Tokenizer: TypeAlias = Literal["none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab"]
# of ISO 639-1, and a name for all others
Language: TypeAlias = Literal[
    "en", "cs", "de", "es", "fr", "ru", "da", "fi", "hu", "it", "nl", "no", "pt", "ro", "sv", "tr", "other"
]


EXTRAS = {"ja-mecab": "japanese", "ko-mecab": "korean"}  # that tokenizers need


def _tokenizing(name: str | None) -> Set[str]:
    return {EXTRAS[name]} if name in EXTRAS else set()


class PerplexityConfig(MetricConfig):
    """Perplexity of the reference targets, over all of them: exp(-log-probability / number of tokens or words)."""

    name, target = "perplexity", "bench_metrics.perplexity:Perplexity"
    needs = Scorer
    cites = ["jelinek1977"]

    by: str | None = None  #: which of the model's likelihoods; by default its first
    unit: Literal["token", "word"] = "token"  #: what the log-probability is shared out among


class NonTerminationConfig(MetricConfig):
    """Share of outputs without stop among their first L tokens (Welleck et al., 2020, arXiv:2002.02492)."""

    name, target = "non-termination", "bench_metrics.termination:NonTermination"
    limits = {"limit": "max_tokens"}
    libraries = frozenset({"scipy"})
    cites = ["welleck2020consistency", "clopper1934"]

    limit: PositiveInt | None = None  #: L, stop included; None takes unfinished outputs at whatever length they have


class DistinctNonTerminatedConfig(MetricConfig):
    """Share of different outputs among those without stop in their first L tokens."""

    name, target = "distinct-non-terminated", "bench_metrics.termination:DistinctNonTerminated"
    limits = {"limit": "max_tokens"}

    limit: PositiveInt | None = None  #: as for non-termination


class LengthConfig(MetricConfig):
    """Mean length in tokens, stop included."""

    name, target = "length", "bench_metrics.length:Length"

    of: Literal["hypothesis", "reference"] = "hypothesis"  #: whose length: the output's, or the reference's


class LengthDistanceConfig(MetricConfig):
    """Distance of the lengths of outputs from those of the references, as distributions (1-Wasserstein)."""

    name, target = "length-distance", "bench_metrics.length:LengthDistance"


class ReportedConfig(MetricConfig):
    """Mean of a value that the model or decoder has left with each output, such as the `calls` of a search."""

    name, target = "reported", "bench_metrics.reported:Reported"

    value: str  #: its name


class ReportedScoreConfig(MetricConfig):
    """Mean of a value that the model has left with each target that it scored, such as its share of wrong bits."""

    name, target = "reported-score", "bench_metrics.reported:ReportedScore"
    needs = Scorer

    value: str  #: its name
    by: str | None = None  #: which of the model's likelihoods; by default its first


class LogProbabilityConfig(MetricConfig):
    """Mean log-probability of what was found, stop included, by the model that it was searched in."""

    name, target = "log-probability", "bench_metrics.reported:LogProbability"


class RepetitionConfig(MetricConfig):
    """Share of n-grams that have already occurred in the same output."""

    name, target = "repetition", "bench_metrics.repetition:Repetition"
    cites = ["welleck2020unlikelihood"]

    n: PositiveInt = 4  #: tokens of an n-gram


class BleuConfig(MetricConfig):
    """Corpus BLEU as sacrebleu computes it (Post, 2018, arXiv:1804.08771)."""

    name, target = "bleu", "bench_metrics.sacre:Bleu"
    libraries = frozenset({"sacrebleu", "mecab-python3", "ipadic"})
    cites = ["papineni2002", "post2018"]

    tokenize: Tokenizer = "13a"  #: sacrebleu's, for outputs and references
    lowercase: bool = False  #: compare in lower case
    smooth: Literal["exp", "floor", "add-k", "none"] = "exp"  #: of n-gram counts that are 0
    smooth_value: NonNegativeFloat | None = None  #: for `floor` (0.1) and `add-k` (1)
    max_order: PositiveInt = 4  #: tokens of the longest n-grams
    effective_order: bool = False  #: leave out orders that no text is long enough for

    def extras(self) -> Set[str]:
        """Return that of the tokenizer."""
        return _tokenizing(self.tokenize)

    @model_validator(mode="after")
    def _value_is_used(self) -> Self:
        if self.smooth_value is not None and self.smooth not in ("floor", "add-k"):
            raise ValueError(f"`smooth_value` means nothing for `smooth: {self.smooth}`; leave it out")
        return self


class ChrfConfig(MetricConfig):
    """Corpus chrF, or chrF++ with `word_order: 2`, as sacrebleu computes it (Popović, 2015, 2017)."""

    name, target = "chrf", "bench_metrics.sacre:Chrf"
    libraries = frozenset({"sacrebleu"})
    cites = ["popovic2015", "word_order=2: popovic2017", "post2018"]

    char_order: PositiveInt = 6  #: characters of the longest n-grams
    word_order: NonNegativeInt = 0  #: words of the longest n-grams
    beta: PositiveInt = 2  #: how many times recall weighs as much as precision
    lowercase: bool = False  #: compare in lower case
    whitespace: bool = False  #: count blanks as characters
    eps_smoothing: bool = False  #: average over all orders, as the original script does


class TerConfig(MetricConfig):
    """Translation edit rate as sacrebleu computes it (Snover et al., 2006)."""

    name, target = "ter", "bench_metrics.sacre:Ter"
    libraries = frozenset({"sacrebleu"})
    cites = ["snover2006", "post2018"]

    normalized: bool = False  #: split off punctuation, as tercom does
    no_punct: bool = False  #: remove punctuation
    asian_support: bool = False  #: split Chinese and Japanese into characters, if normalized
    case_sensitive: bool = False  #: count a word in other case as an edit


class RibesConfig(MetricConfig):
    """RIBES, the agreement of word order, as nltk computes it (Isozaki et al., 2010)."""

    name, target = "ribes", "bench_metrics.ribes:Ribes"
    libraries = frozenset({"nltk", "sacrebleu", "mecab-python3", "ipadic"})
    cites = ["isozaki2010", "bird2009"]

    tokenize: Tokenizer = "13a"  #: sacrebleu's, for outputs and references
    lowercase: bool = False  #: compare in lower case
    alpha: NonNegativeFloat = 0.25  #: exponent of the precision of words
    beta: NonNegativeFloat = 0.10  #: exponent of the brevity penalty

    def extras(self) -> Set[str]:
        """Return nltk's and that of the tokenizer."""
        return {"ribes"} | _tokenizing(self.tokenize)


class NotesBleuConfig(MetricConfig):
    """A sentence's BLEU with exponents 1/2^m, averaged; not to be compared with corpus BLEU."""

    name, target = "notes-bleu", "bench_metrics.notes_bleu:NotesBleu"
    cites = ["papineni2002", "zhang2021dive"]

    k: PositiveInt = 4  #: tokens of the longest n-grams
    tokens: Literal["words", "characters"] = "words"  #: words are what white space separates


class ExactMatchConfig(MetricConfig):
    """Share of texts that equal a reference."""

    name, target = "exact-match", "bench_metrics.exact_match:ExactMatch"
    libraries = frozenset({"scipy"})
    cites = ["clopper1934"]

    strip: bool = False  #: leave out white space at both ends
    lowercase: bool = False  #: compare in lower case


class MeteorConfig(MetricConfig):
    """METEOR 1.5, by its own program in Java (Denkowski and Lavie, 2014)."""

    name, target = "meteor", "bench_metrics.meteor:Meteor"
    libraries = frozenset({"pycocoevalcap", "sacrebleu", "mecab-python3", "ipadic"})
    cites = ["denkowski2014"]

    language: Language = "en"  #: `other` knows exact matches alone, and serves every language
    tokenize: Literal["meteor"] | Tokenizer | None = (
        None  #: by default its own, or 13a for languages that it has none for
    )
    memory: int = Field(1024, ge=64)  #: MiB that Java may take
    patience: PositiveFloat = 600.0  #: seconds that one example may take, its start included

    def extras(self) -> Set[str]:
        """Return Java's and that of the tokenizer."""
        return {"meteor"} | _tokenizing(self.tokenize)

    @model_validator(mode="after")
    def _tokenizer_exists(self) -> Self:
        if self.tokenize == "meteor" and self.language not in ("en", "cs", "de", "es", "fr", "ru"):
            raise ValueError(
                f"METEOR has no tokenizer for `language: {self.language}`, only for en, cs, de, es, fr and ru; "
                "set `tokenize` to another, such as 13a"
            )
        return self


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of this plugin."""
    return [
        PerplexityConfig,
        NonTerminationConfig,
        DistinctNonTerminatedConfig,
        LengthConfig,
        LengthDistanceConfig,
        RepetitionConfig,
        ReportedConfig,
        ReportedScoreConfig,
        LogProbabilityConfig,
        BleuConfig,
        ChrfConfig,
        TerConfig,
        RibesConfig,
        NotesBleuConfig,
        ExactMatchConfig,
        MeteorConfig,
    ]
