"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Set
from math import inf
from typing import Literal, Self, TypeAlias, cast, get_args

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from bench_core import MetricConfig, Scorer, SuiteError, TaskConfig, hookimpl
from bench_metrics.languages import Written, language, spaced, tokenizer_of

# those of sacrebleu that download nothing; `auto` is the usual one of the targets' language
Tokenizer: TypeAlias = Literal["auto", "none", "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab"]
# of ISO 639-1, and a name for all others
Language: TypeAlias = Literal[
    "en", "cs", "de", "es", "fr", "ru", "da", "fi", "hu", "it", "nl", "no", "pt", "ro", "sv", "tr", "other"
]
METEOR = frozenset(get_args(Language))
NORMALIZED = ("en", "cs", "de", "es", "fr", "ru")  # languages that METEOR tokenizes itself


class WordsConfig(MetricConfig):
    """What metrics share that a tokenizer cuts words for."""

    of_texts = True
    libraries = frozenset({"mecab-python3", "ipadic"})
    range = 0, 100

    tokenize: Tokenizer = "auto"  #: sacrebleu's, for outputs and references; `auto` goes by the language of targets

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why the tokenizer does not suit the language of targets, if it does not."""
        try:
            tokenizer_of(self.tokenize, task)
        except SuiteError as error:
            return str(error)
        return None


EXTRAS = {"ja-mecab": "japanese", "ko-mecab": "korean"}  # that tokenizers need


def _tokenizing(name: str | None) -> Set[str]:
    return {EXTRAS[name]} if name in EXTRAS else set()


class PerplexityConfig(MetricConfig):
    """Perplexity of the reference targets, over all of them: exp(-log-probability / number of tokens or words)."""

    name, target = "perplexity", "bench_metrics.perplexity:Perplexity"
    needs = Scorer
    range = 0, inf  # estimates of probabilities may be above 1
    cites = ["jelinek1977"]

    by: str | None = None  #: which of the model's likelihoods; by default its first
    unit: Literal["token", "word"] = "token"  #: what the log-probability is shared out among

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why words cannot be counted, if they are to be."""
        return _unspaced(task, "set `unit: token`") if self.unit == "word" else None


class BitsPerByteConfig(MetricConfig):
    """Bits per byte, or per character, of the raw text of the targets: compares models with different tokenizers."""

    name, target = "bits-per-byte", "bench_metrics.perplexity:BitsPerByte"
    needs = Scorer
    range = -inf, inf  # as above

    by: str | None = None  #: which of the model's likelihoods; by default its first
    per: Literal["byte", "character"] = "byte"  #: of UTF-8, or of Unicode; each stop is a line break, and one of both

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why targets are no text of their own, if they go on from a prefix."""
        prefix = getattr(task, "prefix", 0)
        if not prefix:
            return None
        return f"what follows {prefix} tokens is another text for each tokenizer: set `prefix: 0`, or use perplexity."


class NonTerminationConfig(MetricConfig):
    """Share of outputs without stop among their first L tokens (Welleck et al., 2020, arXiv:2002.02492)."""

    name, target = "non-termination", "bench_metrics.termination:NonTermination"
    of_tokens = True
    limits = {"limit": "max_tokens"}
    range = 0, 100
    cites = ["welleck2020consistency"]

    limit: PositiveInt | None = None  #: L, stop included; None takes unfinished outputs at whatever length they have


class DistinctNonTerminatedConfig(MetricConfig):
    """Share of different outputs among those without stop in their first L tokens."""

    name, target = "distinct-non-terminated", "bench_metrics.termination:DistinctNonTerminated"
    of_tokens = True
    limits = {"limit": "max_tokens"}
    range = 0, 100

    limit: PositiveInt | None = None  #: as for non-termination


class LengthConfig(MetricConfig):
    """Mean length in tokens, stop included."""

    name, target = "length", "bench_metrics.length:Length"
    of_tokens = True
    range = 0, inf

    of: Literal["hypothesis", "reference"] = "hypothesis"  #: whose length: the output's, or the reference's


class LengthDistanceConfig(MetricConfig):
    """Distance of the lengths of outputs from those of the references, as distributions (1-Wasserstein)."""

    name, target = "length-distance", "bench_metrics.length:LengthDistance"
    of_tokens = True
    range = 0, inf


class ReportedConfig(MetricConfig):
    """Mean of a value that the model or decoder has left with each output, such as the `calls` of a search."""

    name, target = "reported", "bench_metrics.reported:Reported"
    range = -inf, inf

    value: str  #: its name


class ReportedScoreConfig(MetricConfig):
    """Mean of a value that the model has left with each target that it scored, such as its share of wrong bits."""

    name, target = "reported-score", "bench_metrics.reported:ReportedScore"
    needs = Scorer
    range = -inf, inf

    value: str  #: its name
    by: str | None = None  #: which of the model's likelihoods; by default its first


class LogProbabilityConfig(MetricConfig):
    """Mean log-probability of what was found, stop included, by the model that it was searched in."""

    name, target = "log-probability", "bench_metrics.reported:LogProbability"
    range = -inf, 0


class RepetitionConfig(MetricConfig):
    """Share of n-grams that have already occurred in the same output."""

    name, target = "repetition", "bench_metrics.repetition:Repetition"
    of_tokens = True
    range = 0, 100
    cites = ["welleck2020unlikelihood"]

    n: PositiveInt = 4  #: tokens of an n-gram


class BleuConfig(WordsConfig):
    """Corpus BLEU as sacrebleu computes it (Post, 2018, arXiv:1804.08771)."""

    name, target = "bleu", "bench_metrics.sacre:Bleu"
    cites = ["papineni2002", "post2018"]

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
    of_texts = True
    range = 0, 100
    cites = ["popovic2015", "word_order=2: popovic2017", "post2018"]

    char_order: PositiveInt = 6  #: characters of the longest n-grams
    word_order: NonNegativeInt = 0  #: words of the longest n-grams
    beta: PositiveInt = 2  #: how many times recall weighs as much as precision
    lowercase: bool = False  #: compare in lower case
    whitespace: bool = False  #: count blanks as characters
    eps_smoothing: bool = False  #: average over all orders, as the original script does

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why words cannot be counted, if they are to be."""
        return _unspaced(task, "set `word_order: 0`") if self.word_order else None


class TerConfig(MetricConfig):
    """Translation edit rate as sacrebleu computes it (Snover et al., 2006)."""

    name, target = "ter", "bench_metrics.sacre:Ter"
    of_texts = True
    range = 0, inf
    cites = ["snover2006", "post2018"]

    normalized: bool | None = None  #: split off punctuation, as tercom does; by default in Chinese and Japanese alone
    no_punct: bool = False  #: remove punctuation
    asian_support: bool | None = None  #: split Chinese and Japanese into characters, if normalized; by default these
    case_sensitive: bool = False  #: count a word in other case as an edit

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why words cannot be counted, if they cannot."""
        if language(task) not in ("ja", "yue", "zh"):
            return _unspaced(task, "leave it out")
        if self.normalized is False or self.asian_support is False:
            return _unspaced(task, "leave out `normalized` and `asian_support`, which are true for it")
        return None


class RibesConfig(WordsConfig):
    """RIBES, the agreement of word order, as nltk computes it (Isozaki et al., 2010)."""

    name, target = "ribes", "bench_metrics.ribes:Ribes"
    cites = ["isozaki2010", "bird2009"]

    lowercase: bool = False  #: compare in lower case
    alpha: NonNegativeFloat = 0.25  #: exponent of the precision of words
    beta: NonNegativeFloat = 0.10  #: exponent of the brevity penalty

    def extras(self) -> Set[str]:
        """Return nltk's and that of the tokenizer."""
        return {"ribes"} | _tokenizing(self.tokenize)


class NotesBleuConfig(MetricConfig):
    """A sentence's BLEU with exponents 1/2^m, averaged; not to be compared with corpus BLEU."""

    name, target = "notes-bleu", "bench_metrics.notes_bleu:NotesBleu"
    of_texts = True
    range = 0, 1
    cites = ["papineni2002", "zhang2021dive"]

    k: PositiveInt = 4  #: tokens of the longest n-grams
    tokens: Literal["words", "characters"] = "words"  #: words are what white space separates

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why words cannot be counted, if they are to be."""
        return _unspaced(task, "set `tokens: characters`") if self.tokens == "words" else None


class ExactMatchConfig(MetricConfig):
    """Share of texts that equal a reference."""

    name, target = "exact-match", "bench_metrics.exact_match:ExactMatch"
    of_texts = True
    range = 0, 100

    strip: bool = False  #: leave out white space at both ends
    lowercase: bool = False  #: compare in lower case


class MeteorConfig(MetricConfig):
    """METEOR 1.5, by its own program in Java (Denkowski and Lavie, 2014)."""

    name, target = "meteor", "bench_metrics.meteor:Meteor"
    of_texts = True
    libraries = frozenset({"mecab-python3", "ipadic"})
    range = 0, 100
    cites = ["denkowski2014"]

    language: Language | None = None  #: by default that of targets; `other` has exact matches alone and is for all
    tokenize: Literal["meteor"] | Tokenizer = "auto"  #: `auto` is its own, or where it has none that of `bleu`
    memory: int = Field(1024, ge=64)  #: MiB that Java may take
    patience: PositiveFloat = 600.0  #: seconds that one example may take, its start included

    def extras(self) -> Set[str]:
        """Return Java's and that of the tokenizer."""
        return {"meteor"} | _tokenizing(self.tokenize)

    @model_validator(mode="after")
    def _tokenizer_exists(self) -> Self:
        if self.tokenize == "meteor" and self.language not in (None, *NORMALIZED):
            raise ValueError(
                f"METEOR has no tokenizer for `language: {self.language}`, only for {', '.join(NORMALIZED)}; "
                "leave `tokenize` out, or set it to another, such as 13a"
            )
        return self

    def refusal(self, task: TaskConfig) -> str | None:
        """Return why it cannot score the language of targets as is asked, if it cannot."""
        try:
            self.resolved(task)
        except SuiteError as error:
            return str(error)
        return None

    def resolved(self, known: Written) -> tuple[Language, str]:
        """Return language and tokenizer; raise SuiteError if they do not suit the language of targets."""
        target = language(known)
        if target and self.language not in (None, "other", target):
            raise SuiteError(f"`language: {self.language}` is not that of the targets, {target!r}: leave it out.")
        usual = "en" if target is None else target if target in METEOR else "other"
        chosen = self.language or cast(Language, usual)
        if self.tokenize == "meteor" and chosen not in NORMALIZED:
            raise SuiteError(f"METEOR has no tokenizer for {target!r}: leave `tokenize` out, or set it to another.")
        own = self.tokenize == "meteor" or (self.tokenize == "auto" and chosen in NORMALIZED)
        return chosen, "meteor" if own else tokenizer_of(self.tokenize, known)


def _unspaced(task: TaskConfig, remedy: str) -> str | None:
    """Return that words cannot be told apart, if so, and what to do."""
    return None if spaced(task) else f"it counts words between spaces, which {language(task)!r} lacks: {remedy}."


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of this plugin."""
    return [
        PerplexityConfig,
        BitsPerByteConfig,
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
