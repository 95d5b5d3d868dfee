"""The parts that this plugin provides, as Configs and hooks; imports no torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from bench_core import UNSPACED, ModelConfig, PathOrName, Purpose, Source, Stepper, TaskConfig, hookimpl
from bench_core.files import digests_of
from bench_text.api import CorpusTaskConfig, Words
from bench_translation import corpus, parsing, tags
from bench_translation.layouts import LAYOUTS
from bench_translation.settings import Both, Corpus, Files, Invented, Named, Parse, Tokenizers

UNDETERMINED = "und-und"  #: the pair of what trainings read, in ISO 639, where languages make no difference to it


class TranslationConfig(CorpusTaskConfig):
    """Translation of sentences, from one language into another."""

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

    corpus: Corpus = Invented(name="invented")  #: the pairs: a name, generated ones with their settings, or files
    pair: str | None = Field(None, pattern=r"^[a-z]{2,3}-[a-z]{2,3}$")  # source-target; as is usual for the corpus
    tokenizer: Tokenizers = Both(source=Words(), target=Words())  #: of both languages, or of each: word, char, bpe
    shared: bool = False  # one vocabulary, learnt from both languages
    moses: bool | None = None  # whether Moses sets tokens apart, and joins them again; as is usual for the corpus
    normalize: bool | None = None  # whether Moses makes punctuation uniform before; as `moses`
    lowercase: bool = False  #: whether both sides are in lower case, references too
    longest: PositiveInt | None = None  # tokens of a side; longer pairs are not trained on
    ratio: float | None = Field(None, ge=1)  # of the longer to the shorter side; more uneven pairs are not trained on
    examples: PositiveInt | None = None  #: train on at most so many pairs, spaced evenly over the corpus
    source_limit: PositiveInt | None = None  # tokens of a source that a model can read
    over_limit: Literal["error", "truncate"] = "error"  # what happens to a longer source that is not trained on
    parse: Parse | None = None  #: what tells how the words of the target depend on each other; by default nothing
    tags: PathOrName | None = None  #: a treebank, folder or file, that metrics know parts of speech by

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_pair()
        if self.shared and self.tokenizer.source != self.tokenizer.target:
            raise ValueError("a shared vocabulary needs the same tokenizer for source and target")
        if self.over_limit == "truncate" and self.source_limit is None:
            raise ValueError("`over_limit: truncate` needs a `source_limit`")
        for language, tokens in zip(self.languages, (self.tokenizer.source, self.tokenizer.target), strict=True):
            if language in UNSPACED and tokens.kind == "word" and not self.tokenized:
                raise ValueError(
                    f"no spaces stand between the words of {language!r} in this corpus: give its side another "
                    "tokenizer, such as {source: char, target: {kind: bpe, vocab_size: 8000}}"
                )
        use = "to `parse`" if self.parse else "for `tags`" if self.tags else ""
        if use and self.languages[1] in UNSPACED and not self.tokenized:
            raise ValueError(
                f"no spaces stand between the words of {self.languages[1]!r} in this corpus, so there are none {use}"
                ": leave it out, or take a corpus whose tokens are set apart"
            )
        return self

    def _check_pair(self) -> None:
        known = corpus.languages(self.corpus)
        if not known and self.pair is None:
            raise ValueError("give the languages of the corpus as `pair:`, such as de-en")
        source, target = self.languages
        if known and not corpus.has(self.corpus, source, target):
            raise ValueError(f"{self.pair!r} is no pair of this corpus; it has {corpus.told(self.corpus)}")

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
        """Return whether the corpus comes with spaces between all tokens."""
        if isinstance(self.corpus, Named):
            return self.corpus.name in LAYOUTS and LAYOUTS[self.corpus.name].tokenized
        return isinstance(self.corpus, Invented)

    def extras(self) -> Set[str]:
        """Return spaCy's, where it parses."""
        return {"spacy"} if self.parse and self.parse.kind != "conllu" else set()

    def at(self, split: str | None) -> Self:
        """Return what a split depends on, or what trainings do: no test sets, further references, or tags."""
        if split is None:
            found = self.model_copy(update={"corpus": self.corpus.trained_on(), "tags": None})
            return found.model_copy(update={"pair": UNDETERMINED}) if self._is_alike_in_all_languages() else found
        unread = () if split == "train" else ("longest", "ratio", "examples")
        return super().at(split).model_copy(update=dict.fromkeys(unread))

    def _is_alike_in_all_languages(self) -> bool:
        """Return whether files and tokens depend on no language: they are the user's, and nothing normalises them."""
        moses = [one for side in ("source", "target") for one in self.moses_of(getattr(self.tokenizer, side).kind)]
        return isinstance(self.corpus, Files) and not (self.lowercase or self.parse or any(moses))

    def moses_of(self, kind: str) -> tuple[bool, bool]:
        """Return whether Moses cuts text into tokens of a kind, and normalises it, if its language has spaces."""
        usual = kind != "char" and not self.tokenized
        moses = usual if self.moses is None else self.moses
        return moses, moses if self.normalize is None else self.normalize

    def purposes(self, split: str) -> Set[Purpose]:
        """Return all of them for the splits of the corpus."""
        return set(Purpose) if split in corpus.splits(self.corpus) else set()

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of each file; the generated language has none, but what parses it may."""
        return digests_of(
            lambda: corpus.reads(self.corpus, self.languages, data),
            lambda: parsing.reads(self.parse, data) if self.parse else {},
            lambda: tags.reads(self.tags, data) if self.tags else {},
        )


class CopySourceConfig(ModelConfig):
    """The source, copied: a baseline that learns nothing, for one vocabulary of both languages."""

    name, target = "copy-source", "bench_text.copy_source:CopySource"
    capabilities, sources = {Stepper}, {Source.TOKENS}

    def exempt(self) -> Mapping[str, str]:
        contracts = ("the_loss_is_finite_and_weighs_target_tokens", "eight_examples_can_be_learnt_by_heart")
        return dict.fromkeys(contracts, "it learns nothing")


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks of this plugin."""
    return [TranslationConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the baseline."""
    return [CopySourceConfig]
