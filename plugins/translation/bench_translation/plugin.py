"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from bench_core import UNSPACED, ModelConfig, PathOrName, Purpose, Source, Stepper, TaskConfig, hookimpl
from bench_core.files import digests_of
from bench_text.api import CorpusTaskConfig, Words
from bench_translation import corpus
from bench_translation.layouts import LAYOUTS
from bench_translation.settings import Both, Corpus, Invented, NamedParallelCorpus, ParallelFiles, Parse, Tokenizers

UNDETERMINED = "und-und"  #: language pair of training inputs (ISO 639), where languages do not affect training


class TranslationConfig(CorpusTaskConfig):
    """Translation of sentences from one language into another."""

    name, target = "translation", "bench_translation.translation:Translation"
    inspector = "bench_translation.inspecting:inspect"
    source = Source.TOKENS
    cites = [
        "tokenizer.source.kind=bpe: sennrich2016",
        "tokenizer.target.kind=bpe: sennrich2016",
        "moses=true: koehn2007",
        "parse.kind=spacy: honnibal2020",
        "parse.kind=train: honnibal2020",
        "parse.treebank=ud-english-ewt: silveira2014",
        "tags=ud-english-ewt: silveira2014",
    ]

    corpus: Corpus = Invented.model_construct(
        name="invented"
    )  #: parallel corpus: a name, a name with settings, or files
    pair: str | None = Field(None, pattern=r"^[a-z]{2,3}-[a-z]{2,3}$")  # languages, such as de-en; default: by corpus
    tokenizer: Tokenizers = Both.model_construct(
        source=Words.model_construct(), target=Words.model_construct()
    )  #: word, char or bpe, for both sides or each
    shared: bool = False  # one vocabulary, learned from both languages
    moses: bool | None = None  # whether to tokenize and detokenize with Moses; the default depends on the corpus
    normalize: bool | None = None  # whether to apply Moses' punctuation normalization first; default: as `moses`
    lowercase: bool = False  #: lowercase both sides, references included
    longest: PositiveInt | None = None  # maximum tokens of either side in training
    ratio: float | None = Field(None, ge=1)  # maximum ratio of the longer to the shorter side in training
    examples: PositiveInt | None = None  #: maximum number of training pairs, spaced evenly over the corpus
    source_limit: PositiveInt | None = None  # maximum source tokens that a model can read
    over_limit: Literal["error", "truncate"] = "error"  # how to treat longer sources in evaluation
    parse: Parse | None = None  #: how to obtain dependency trees of targets; default: no trees
    tags: PathOrName | None = None  #: treebank, a folder or file, that provides parts of speech to metrics

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_pair()
        if self.shared and self.tokenizer.source != self.tokenizer.target:
            raise ValueError("`shared: true` needs the same tokenizer for source and target. Change one of them")
        if self.over_limit == "truncate" and self.source_limit is None:
            raise ValueError("`over_limit: truncate` needs a `source_limit`. Set it")
        for language, tokens in zip(self.languages, (self.tokenizer.source, self.tokenizer.target), strict=True):
            if language in UNSPACED and tokens.kind == "word" and not self.tokenized:
                raise ValueError(
                    f"words of {language!r} are not separated by spaces in this corpus: give this side another "
                    "tokenizer, such as {source: char, target: {kind: bpe, vocab_size: 8000}}"
                )
        use = "`parse`" if self.parse else "`tags`" if self.tags else ""
        if use and self.languages[1] in UNSPACED and not self.tokenized:
            raise ValueError(
                f"{use} needs words, but words of {self.languages[1]!r} are not separated by spaces in this corpus"
                f": remove {use}, or use a tokenized corpus"
            )
        return self

    def _check_pair(self) -> None:
        known = corpus.languages(self.corpus)
        if not known and self.pair is None:
            raise ValueError("set `pair` to the languages of the corpus, such as `pair: de-en`")
        source, target = self.languages
        if known and not corpus.has(self.corpus, source, target):
            raise ValueError(
                f"{self.pair!r} is not a pair of this corpus; it has {corpus.describe_languages(self.corpus)}"
            )

    @property
    def languages(self) -> tuple[str, str]:
        """Return the languages of source and target."""
        source, target = self.pair.split("-") if self.pair else corpus.languages(self.corpus)[:2]
        return source, target

    @property
    def language(self) -> str:
        """Return the language of targets."""
        return self.languages[1]

    @property
    def tokenized(self) -> bool:
        """Return whether the corpus is tokenized already."""
        if isinstance(self.corpus, NamedParallelCorpus):
            return self.corpus.name in LAYOUTS and LAYOUTS[self.corpus.name].tokenized
        return isinstance(self.corpus, Invented)

    def extras(self) -> Set[str]:
        """Return the extra for spaCy if spaCy parses targets."""
        return {"spacy"} if self.parse and self.parse.kind != "conllu" else set()

    def at(self, split: str | None) -> Self:
        """Return the settings that affect a split or, for None, training (without test sets, references, tags)."""
        if split is None:
            trained = self.model_copy(update={"corpus": self.corpus.trained_on(), "tags": None})
            return trained.model_copy(update={"pair": UNDETERMINED}) if self._is_alike_in_all_languages() else trained
        unread = () if split == "train" else ("longest", "ratio", "examples")
        return super().at(split).model_copy(update=dict.fromkeys(unread))

    def _is_alike_in_all_languages(self) -> bool:
        """Return whether the languages have no effect: own files without language-specific processing."""
        moses = [flag for side in ("source", "target") for flag in self.moses_of(getattr(self.tokenizer, side).kind)]
        return isinstance(self.corpus, ParallelFiles) and not (self.lowercase or self.parse or any(moses))

    def moses_of(self, kind: str) -> tuple[bool, bool]:
        """Return whether Moses tokenizes, and whether it normalizes, by kind of tokens, in languages with spaces."""
        usual = kind != "char" and not self.tokenized
        moses = usual if self.moses is None else self.moses
        return moses, moses if self.normalize is None else self.normalize

    def purposes(self, split: str) -> Set[Purpose]:
        """Return all purposes for splits of the corpus, none for other splits."""
        return set(Purpose) if split in corpus.splits(self.corpus) else set()

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of each file; a generated corpus has no files, but its parser may."""
        from bench_translation import parsing, tags  # only when data are read

        return digests_of(
            lambda: corpus.reads(self.corpus, self.languages, data),
            lambda: parsing.reads(self.parse, data) if self.parse else {},
            lambda: tags.reads(self.tags, data) if self.tags else {},
        )


class CopySourceConfig(ModelConfig):
    """Baseline that copies the source; it learns nothing and needs one vocabulary for both languages."""

    name, target = "copy-source", "bench_text.copy_source:CopySource"
    capabilities, sources = {Stepper}, {Source.TOKENS}

    def exempt(self) -> Mapping[str, str]:
        contracts = ("the_loss_is_finite_and_weighs_target_tokens", "eight_examples_can_be_learnt_by_heart")
        return dict.fromkeys(contracts, "it learns nothing")


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the task."""
    return [TranslationConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the baseline."""
    return [CopySourceConfig]
