"""The settings of parallel corpora and tokenizers."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from bench_core import PathOrName, Settings
from bench_text.api import CorpusSplits, LearnedTokenizer, OwnSplits, Paths, TestName, both_sides, by_name

#: How to come by a pipeline of spaCy.
WAYS = (
    "Install one, such as by `python -m spacy download en_core_web_sm`, or let one be learnt: "
    "{kind: train, treebank: ud-english-ewt}"
)


class Pair(Settings):
    """Files: line n of a target translates line n of its source; several are joined."""

    source: Paths  #: of sentences to translate
    target: Paths  #: of their translations
    references: list[Path] = []  #: a file for each further translation, which outputs are compared with, too

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if len(self.source) != len(self.target):
            raise ValueError(f"give as many files of the source, {len(self.source)}, as of the target")
        return self


class Invented(CorpusSplits):
    """English-like sentences in a generated language; valid and test have a tenth of the training sentences each."""

    name: Literal["invented"]
    sentences: PositiveInt = 20_000  #: pairs of the training split
    seed: int = 0  #: of what is drawn; the same one gives the same pairs


class OwnPairs(OwnSplits):
    """A corpus of which splits may be a user's own files."""

    train: Pair | None = None
    valid: Pair | None = None
    test: Pair | None = None
    tests: dict[TestName, Pair] = {}  #: further test sets by name; each is a split of that name

    def trained_on(self) -> Self:
        """Return what trainings read: no further references."""
        found = self.restricted("train", "valid")
        return found.model_copy(
            update={split: pair.model_copy(update={"references": []}) for split, pair in found.own.items()}
        )


class Named(OwnPairs):
    """A known corpus or a folder of the data directory, of which some splits may be other files."""

    name: str = Field(min_length=1)  #: of the corpus, see `bench data list`, or of the folder
    train: Pair | None = None  #: files in place of its own for this split
    valid: Pair | None = None  #: likewise
    test: Pair | None = None  #: likewise


class Files(OwnPairs):
    """A user's own files."""

    train: Pair | None = None  #: pairs to train on
    valid: Pair | None = None  #: pairs to choose weights and settings by
    test: Pair | None = None  #: pairs to report on

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if not self.own:
            raise ValueError("give the files of at least one of `train`, `valid`, `test` and `tests`")
        return self


def _choice(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    return "files" if name is None else "invented" if name == "invented" else "named"


_Corpus: TypeAlias = Annotated[
    Annotated[Invented, Tag("invented")] | Annotated[Named, Tag("named")] | Annotated[Files, Tag("files")],
    Discriminator(_choice),
]
Corpus: TypeAlias = Annotated[_Corpus, BeforeValidator(by_name(), json_schema_input_type=str | _Corpus)]


class Both(Settings):
    """Tokens of either language."""

    source: LearnedTokenizer  #: what a source is cut into
    target: LearnedTokenizer  #: what a target is cut into


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
    """A pipeline of spaCy that has a parser."""

    kind: Literal["spacy"]
    pipeline: PathOrName  # an installed package, or a folder


class Treebank(Settings):
    """A parser that spaCy learns from `*-train.conllu` in a folder; `*-dev.conllu` tests it."""

    kind: Literal["train"]
    treebank: PathOrName = "ud-english-ewt"
    steps: PositiveInt = 1000  # updates, each of 500 words
    seed: int = 0


Parse: TypeAlias = Annotated[Conllu | Pipeline | Treebank, Field(discriminator="kind")]
