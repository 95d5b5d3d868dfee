"""Settings of parallel corpora and tokenizers."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from bench_core import PathOrName, Settings
from bench_text.api import CorpusSplits, LearnedTokenizer, OwnSplits, Paths, TestName, both_sides, by_name

#: How to obtain a spaCy pipeline.
WAYS = (
    "Install one, for example with `python -m spacy download en_core_web_sm`, or train a parser: "
    "{kind: train, treebank: ud-english-ewt}"
)


class FilePair(Settings):
    """Parallel files: line n of the target translates line n of the source; several files are concatenated."""

    source: Paths  #: sentences to translate
    target: Paths  #: translations of `source`
    references: list[Path] = []  #: one file per further translation, used as additional references

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if len(self.source) != len(self.target):
            lengths = f"`source` ({len(self.source)}) and `target` ({len(self.target)})"
            raise ValueError(f"{lengths} must have the same length")
        return self


class Invented(CorpusSplits):
    """English-like sentences in a generated language; valid and test each have a tenth as many as train."""

    name: Literal["invented"]
    sentences: PositiveInt = 20_000  #: number of training pairs
    seed: int = 0  #: random seed; equal seeds give equal pairs


class OwnPairs(OwnSplits):
    """A corpus in which some splits may be your own files."""

    train: FilePair | None = None
    valid: FilePair | None = None
    test: FilePair | None = None
    tests: dict[TestName, FilePair] = {}  #: further test sets by name; each is a split of that name

    def trained_on(self) -> Self:
        """Return the corpus that training depends on, without further references."""
        corpus = self.restricted("train", "valid")
        return corpus.model_copy(
            update={split: pair.model_copy(update={"references": []}) for split, pair in corpus.own.items()}
        )


class NamedParallelCorpus(OwnPairs):
    """A known corpus or a folder of the data directory, optionally with other files for some splits."""

    name: str = Field(min_length=1)  #: a corpus of `bench data list`, or a folder
    train: FilePair | None = None  #: files that replace this split
    valid: FilePair | None = None  #: files that replace this split
    test: FilePair | None = None  #: files that replace this split


class ParallelFiles(OwnPairs):
    """A parallel corpus in your own files."""

    train: FilePair | None = None  #: training pairs
    valid: FilePair | None = None  #: pairs for choosing weights and settings
    test: FilePair | None = None  #: pairs to report results on

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if not self.own:
            raise ValueError("give the files of at least one of `train`, `valid`, `test` and `tests`")
        return self


def _choice(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    return "files" if name is None else "invented" if name == "invented" else "named"


_Corpus: TypeAlias = Annotated[
    Annotated[Invented, Tag("invented")]
    | Annotated[NamedParallelCorpus, Tag("named")]
    | Annotated[ParallelFiles, Tag("files")],
    Discriminator(_choice),
]
Corpus: TypeAlias = Annotated[_Corpus, BeforeValidator(by_name(), json_schema_input_type=str | _Corpus)]


class Both(Settings):
    """Tokenizers of source and target."""

    source: LearnedTokenizer  #: tokenizer of the source
    target: LearnedTokenizer  #: tokenizer of the target


Tokenizers: TypeAlias = Annotated[
    Both, BeforeValidator(both_sides, json_schema_input_type=str | LearnedTokenizer | Both)
]


class Conllu(Settings):
    """CoNLL-U files: the sentences of the target, in the order of its lines."""

    kind: Literal["conllu"]
    train: Paths
    valid: Paths | None = None
    test: Paths | None = None


class Pipeline(Settings):
    """A spaCy pipeline with a parser."""

    kind: Literal["spacy"]
    pipeline: PathOrName  # an installed package, or a folder


class Treebank(Settings):
    """A spaCy parser trained on `*-train.conllu` in a folder, and evaluated on `*-dev.conllu`."""

    kind: Literal["train"]
    treebank: PathOrName = "ud-english-ewt"
    steps: PositiveInt = 1000  # updates of 500 words each
    seed: int = 0


Parse: TypeAlias = Annotated[Conllu | Pipeline | Treebank, Field(discriminator="kind")]
