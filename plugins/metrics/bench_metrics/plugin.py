"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Set
from math import inf
from typing import Literal, Self, TypeAlias, cast, get_args

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from bench_core import MetricConfig, Scorer, SuiteError, TaskConfig, hookimpl
from bench_metrics.languages import Targets, has_spaces, language, tokenizer_of
from bench_metrics.target_configs import NatsPercentileConfig, TargetProbabilityConfig
from bench_metrics.token_configs import BandPerplexityConfig, ReciprocalRankConfig, TokenAccuracyConfig
from bench_metrics.word_configs import Tokenizer, WordErrorsConfig, WordsConfig, tokenizer_extras

# ISO 639-1 codes, and `other`
Language: TypeAlias = Literal[
    "en", "cs", "de", "es", "fr", "ru", "da", "fi", "hu", "it", "nl", "no", "pt", "ro", "sv", "tr", "other"
]
METEOR = frozenset(get_args(Language))
NORMALIZED = ("en", "cs", "de", "es", "fr", "ru")  # languages with a tokenizer of METEOR


class PerplexityConfig(MetricConfig):
    """Perplexity of all reference targets: exp(-log-probability / number of tokens or words)."""

    name, target = "perplexity", "bench_metrics.perplexity:Perplexity"
    needs = Scorer
    range = 0, inf  # estimated probabilities may exceed 1
    cites = ["jelinek1977"]

    by: str | None = None  #: likelihood of the model to use; default: its first likelihood
    unit: Literal["token", "word"] = "token"  #: log-probabilities are divided by the number of tokens or of words

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why words cannot be counted; None if they can be, or are not needed."""
        return _spaces_refusal(task, "set `unit: token`") if self.unit == "word" else None


class BitsPerByteConfig(MetricConfig):
    """Bits per byte or character of the raw text of targets; comparable across tokenizers."""

    name, target = "bits-per-byte", "bench_metrics.perplexity:BitsPerByte"
    needs = Scorer
    range = -inf, inf  # estimated probabilities may exceed 1

    by: str | None = None  #: likelihood of the model to use; default: its first likelihood
    per: Literal["byte", "character"] = "byte"  #: UTF-8 bytes or Unicode characters; EOS counts as one (a line break)

    def refusal(self, task: TaskConfig) -> str | None:
        """Refuse tasks with a prefix, whose targets depend on the tokenizer: return the reason, or None."""
        prefix = getattr(task, "prefix", 0)
        if not prefix:
            return None
        return f"the text after {prefix} tokens depends on the tokenizer: set `prefix: 0`, or use perplexity."


class NonTerminationConfig(MetricConfig):
    """Share of outputs without EOS among their first L tokens (Welleck et al., 2020, arXiv:2002.02492)."""

    name, target = "non-termination", "bench_metrics.termination:NonTermination"
    of_tokens = True
    limits = {"limit": "max_tokens"}
    range = 0, 100
    cites = ["welleck2020consistency"]

    limit: PositiveInt | None = None  #: L, including EOS; default: count outputs that decoding left unfinished


class DistinctNonTerminatedConfig(MetricConfig):
    """Share of distinct outputs among the outputs without EOS in their first L tokens."""

    name, target = "distinct-non-terminated", "bench_metrics.termination:DistinctNonTerminated"
    of_tokens = True
    limits = {"limit": "max_tokens"}
    range = 0, 100

    limit: PositiveInt | None = None  #: L, as in `non-termination`


class LengthConfig(MetricConfig):
    """Mean length in tokens, EOS included."""

    name, target = "length", "bench_metrics.length:Length"
    of_tokens = True
    range = 0, inf

    of: Literal["hypothesis", "reference"] = "hypothesis"  #: whether to measure outputs or references


class LengthRatioConfig(MetricConfig):
    """Length of all outputs divided by the length of all references, in tokens, EOS included."""

    name, target = "length-ratio", "bench_metrics.length:LengthRatio"
    of_tokens = True
    range = 0, inf


class LengthDistanceConfig(MetricConfig):
    """1-Wasserstein distance between the length distributions of outputs and references."""

    name, target = "length-distance", "bench_metrics.length:LengthDistance"
    of_tokens = True
    range = 0, inf


class ReportedConfig(MetricConfig):
    """Mean of a value that the model or decoder reports with each output, such as the `calls` of a search."""

    name, target = "reported", "bench_metrics.reported:Reported"
    range = -inf, inf

    value: str  #: name of the value


class ReportedScoreConfig(MetricConfig):
    """Mean of a value that the model reports with each scored target, such as the share of wrong bits."""

    name, target = "reported-score", "bench_metrics.reported:ReportedScore"
    needs = Scorer
    range = -inf, inf

    value: str  #: name of the value
    by: str | None = None  #: likelihood of the model to use; default: its first likelihood


class LogProbabilityConfig(MetricConfig):
    """Mean log-probability of outputs under the model that generated them, EOS included."""

    name, target = "log-probability", "bench_metrics.reported:LogProbability"
    range = -inf, 0


class RepetitionConfig(MetricConfig):
    """Share of n-grams that occurred earlier in the same output."""

    name, target = "repetition", "bench_metrics.repetition:Repetition"
    of_tokens = True
    range = 0, 100
    cites = ["welleck2020unlikelihood"]

    n: PositiveInt = 4  #: n-gram order


class BleuConfig(WordsConfig):
    """Corpus BLEU, computed by sacrebleu (Post, 2018, arXiv:1804.08771)."""

    name, target = "bleu", "bench_metrics.sacre:Bleu"
    cites = ["papineni2002", "post2018"]

    lowercase: bool = False  #: compare in lower case
    smooth: Literal["exp", "floor", "add-k", "none"] = "exp"  #: smoothing of n-gram counts of 0
    smooth_value: NonNegativeFloat | None = None  #: value for `floor` (default 0.1) and `add-k` (default 1)
    max_order: PositiveInt = 4  #: maximum n-gram order
    effective_order: bool = False  #: ignore orders for which no text is long enough

    def extras(self) -> Set[str]:
        """Return the extra of the tokenizer; empty if it needs no extra."""
        return tokenizer_extras(self.tokenize)

    @model_validator(mode="after")
    def _value_is_used(self) -> Self:
        if self.smooth_value is not None and self.smooth not in ("floor", "add-k"):
            raise ValueError(f"`smooth_value` has no effect with `smooth: {self.smooth}`; leave it out")
        return self


class ChrfConfig(MetricConfig):
    """Corpus chrF, or chrF++ with `word_order: 2`, computed by sacrebleu (Popović, 2015, 2017)."""

    name, target = "chrf", "bench_metrics.sacre:Chrf"
    of_texts = True
    range = 0, 100
    cites = ["popovic2015", "word_order=2: popovic2017", "post2018"]

    char_order: PositiveInt = 6  #: maximum character n-gram order
    word_order: NonNegativeInt = 0  #: maximum word n-gram order
    beta: PositiveInt = 2  #: weight of recall relative to precision
    lowercase: bool = False  #: compare in lower case
    whitespace: bool = False  #: count whitespace as characters
    eps_smoothing: bool = False  #: smooth by epsilon, and average over all orders, as the original script does

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why words cannot be counted; None if they can be, or are not needed."""
        return _spaces_refusal(task, "set `word_order: 0`") if self.word_order else None


class TerConfig(MetricConfig):
    """Translation edit rate, computed by sacrebleu (Snover et al., 2006)."""

    name, target = "ter", "bench_metrics.sacre:Ter"
    of_texts = True
    range = 0, inf
    cites = ["snover2006", "post2018"]

    normalized: bool | None = None  #: split off punctuation, as tercom does; default: only for Chinese and Japanese
    no_punct: bool = False  #: remove punctuation
    asian_support: bool | None = None  #: if normalized, split into characters; default: only for Chinese and Japanese
    case_sensitive: bool = False  #: count differences of case as edits

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why words cannot be counted; None if they can."""
        if language(task) not in ("ja", "yue", "zh"):
            return _spaces_refusal(task, "leave it out")
        if self.normalized is False or self.asian_support is False:
            return _spaces_refusal(task, "leave out `normalized` and `asian_support`, which default to true")
        return None


class RibesConfig(WordsConfig):
    """RIBES, a measure of agreement in word order, computed by nltk (Isozaki et al., 2010)."""

    name, target = "ribes", "bench_metrics.ribes:Ribes"
    cites = ["isozaki2010", "bird2009"]

    lowercase: bool = False  #: compare in lower case
    alpha: NonNegativeFloat = 0.25  #: exponent of the word precision
    beta: NonNegativeFloat = 0.10  #: exponent of the brevity penalty

    def extras(self) -> Set[str]:
        """Return the extras of nltk and of the tokenizer."""
        return {"ribes"} | tokenizer_extras(self.tokenize)


class NotesBleuConfig(MetricConfig):
    """Mean sentence BLEU with exponents 1/2^m; not comparable with corpus BLEU."""

    name, target = "notes-bleu", "bench_metrics.notes_bleu:NotesBleu"
    of_texts = True
    range = 0, 1
    cites = ["papineni2002", "zhang2021dive"]

    k: PositiveInt = 4  #: maximum n-gram order
    tokens: Literal["words", "characters"] = "words"  #: words are separated by whitespace

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why words cannot be counted; None if they can be, or are not needed."""
        return _spaces_refusal(task, "set `tokens: characters`") if self.tokens == "words" else None


class ExactMatchConfig(MetricConfig):
    """Share of outputs that equal a reference."""

    name, target = "exact-match", "bench_metrics.exact_match:ExactMatch"
    of_texts = True
    range = 0, 100

    strip: bool = False  #: ignore whitespace at both ends
    lowercase: bool = False  #: compare in lower case


class MeteorConfig(MetricConfig):
    """METEOR 1.5, computed by its Java program (Denkowski and Lavie, 2014)."""

    name, target = "meteor", "bench_metrics.meteor:Meteor"
    of_texts = True
    libraries = frozenset({"mecab-python3", "ipadic"})
    range = 0, 100
    cites = ["denkowski2014"]

    language: Language | None = None  #: default: the target language; `other`: exact matches only, for any language
    tokenize: Literal["meteor"] | Tokenizer = "auto"  #: `auto`: METEOR's tokenizer if it has one, else as in `bleu`
    memory: int = Field(1024, ge=64)  #: maximum memory of Java in MiB
    patience: PositiveFloat = 600.0  #: maximum seconds per example, start-up included

    def extras(self) -> Set[str]:
        """Return the extras of METEOR and of the tokenizer."""
        return {"meteor"} | tokenizer_extras(self.tokenize)

    @model_validator(mode="after")
    def _tokenizer_exists(self) -> Self:
        if self.tokenize == "meteor" and self.language not in (None, *NORMALIZED):
            raise ValueError(
                f"METEOR has no tokenizer for `language: {self.language}`, only for {', '.join(NORMALIZED)}; "
                "leave `tokenize` out, or choose another, such as 13a"
            )
        return self

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why the settings do not support the target language; None if they do."""
        try:
            self.resolve(task)
        except SuiteError as error:
            return str(error)
        return None

    def resolve(self, targets: Targets) -> tuple[Language, str]:
        """Return language and tokenizer; raise SuiteError if they do not support the target language."""
        target = language(targets)
        if target and self.language not in (None, "other", target):
            raise SuiteError(f"`language: {self.language}` is not the target language, {target!r}: leave it out.")
        default = "en" if target is None else target if target in METEOR else "other"
        chosen = self.language or cast(Language, default)
        if self.tokenize == "meteor" and chosen not in NORMALIZED:
            raise SuiteError(f"METEOR has no tokenizer for {target!r}: leave `tokenize` out, or choose another.")
        by_meteor = self.tokenize == "meteor" or (self.tokenize == "auto" and chosen in NORMALIZED)
        return chosen, "meteor" if by_meteor else tokenizer_of(self.tokenize, targets)


def _spaces_refusal(task: TaskConfig, remedy: str) -> str | None:
    """Return why words cannot be counted in the target language, and `remedy`; None if they can."""
    return None if has_spaces(task) else f"it counts words between spaces, which {language(task)!r} lacks: {remedy}."


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of this plugin."""
    return [
        PerplexityConfig,
        BitsPerByteConfig,
        TargetProbabilityConfig,
        NatsPercentileConfig,
        NonTerminationConfig,
        DistinctNonTerminatedConfig,
        LengthConfig,
        LengthRatioConfig,
        LengthDistanceConfig,
        RepetitionConfig,
        ReportedConfig,
        ReportedScoreConfig,
        BandPerplexityConfig,
        TokenAccuracyConfig,
        ReciprocalRankConfig,
        LogProbabilityConfig,
        BleuConfig,
        ChrfConfig,
        TerConfig,
        RibesConfig,
        WordErrorsConfig,
        NotesBleuConfig,
        ExactMatchConfig,
        MeteorConfig,
    ]
