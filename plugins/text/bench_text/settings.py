"""The settings of tokenizers, and of corpora by name; imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PositiveInt, StringConstraints

from bench_core import PathOrName, Settings, kinded
from bench_text.corpora import SPLITS


def by_name(own: str = "files for train, valid, test") -> Callable[[Any], Any]:
    """Return a validator for a corpus, which reads a bare word as `{name: WORD}`; `own` is what else may be given."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict | Settings):
            return value
        raise ValueError(f"give the name of a corpus, a mapping of its name and settings, or {own}")

    return check


def _no_split(name: str) -> str:
    if name in SPLITS:
        raise ValueError(f"a test set cannot be called {name!r}, which is a split already: rename it")
    return name


#: What a test set may be called, which is then a split of that name.
TestName: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=60), AfterValidator(_no_split)
]


class CorpusSplits(Settings):
    """A corpus of which some splits may be left out."""

    only: tuple[str, ...] | None = Field(None, min_length=1)  #: the splits that are read; by default all

    def has(self, split: str) -> bool:
        """Return whether a split is read, if there is one of this name."""
        return self.only is None or split in self.only

    def restricted(self, *splits: str) -> Self:
        """Return the corpus with those of some splits that are read."""
        return self.model_copy(update={"only": tuple(filter(self.has, splits))})

    def trained_on(self) -> Self:
        """Return what trainings read."""
        return self.restricted("train", "valid")


class OwnSplits(CorpusSplits):
    """A corpus of which splits may be a user's own: `train`, `valid`, `test`, and others by name in `tests`."""

    if TYPE_CHECKING:
        tests: dict[Any, Any]

    @property
    def own(self) -> dict[str, Any]:
        """Return what is given for each split that is read."""
        found = {split: given for split in SPLITS if (given := getattr(self, split)) is not None} | self.tests
        return {split: given for split, given in found.items() if self.has(split)}

    def restricted(self, *splits: str) -> Self:
        tests = {name: given for name, given in self.tests.items() if name in splits}
        left_out = {split: None for split in SPLITS if split not in splits}
        return super().restricted(*splits).model_copy(update={**left_out, "tests": tests})


def listed(value: Any) -> Any:
    """Take one text or path for a list of it."""
    return [value] if isinstance(value, str | Path) else value


def both_sides(value: Any) -> Any:
    """Take settings that are not those of two sides for the ones of either."""
    if hasattr(value, "source") or (isinstance(value, dict) and {"source", "target"} & set(value)):
        return value
    return {"source": value, "target": value}


#: A file, or several in a list.
Paths: TypeAlias = Annotated[
    list[Path], Field(min_length=1), BeforeValidator(listed, json_schema_input_type=Path | list[Path])
]


class Words(Settings):
    """White-space separated words, so line breaks become spaces; the rare ones become `<unk>`."""

    kind: Literal["word"] = "word"
    min_count: PositiveInt = 1  # the fewest occurrences of a word that is kept
    most_words: PositiveInt | None = None  # keep at most these many, the most frequent ones


class Characters(Settings):
    """Unicode characters, spaces and line breaks among them."""

    kind: Literal["char"]


class BytePairs(Settings):
    """Byte pair encoding of the bytes of words and of the white space between, learnt from the training split."""

    kind: Literal["bpe"]
    vocab_size: int = Field(20_000, ge=259)  # with 256 bytes and three special tokens
    dropout: float = Field(0.0, ge=0, lt=1)  #: the probability that a merge is left out, to train, anew in each epoch


class Codes(Settings):
    """Given byte pair codes of subword-nmt, applied to words between spaces; pieces within a word end with `@@`."""

    kind: Literal["codes"]
    codes: Path  #: of `subword-nmt learn-bpe`
    vocabulary: Path | None = None  #: of `subword-nmt get-vocab`; other pieces are cut further
    threshold: PositiveInt = 1  #: the fewest occurrences of a piece of this vocabulary
    dropout: float = Field(0.0, ge=0, lt=1)  #: the probability that a merge is left out, to train, anew in each epoch


class SentencePiece(Settings):
    """The pieces of a given SentencePiece model, which makes texts uniform as it was trained to."""

    kind: Literal["sentencepiece"]
    model: Path  #: a file, usually called `.model`


class Pretrained(Settings):
    """The tokens of a pretrained model, `tokenizer.json` in a folder."""

    kind: Literal["pretrained"]
    path: PathOrName  #: of the folder, from that of the suite, the working directory or the data directory
    stop: str | None = None  # the token that ends a text; as the files beside the tokenizer say


Learned: TypeAlias = Words | Characters | BytePairs | Codes | SentencePiece
_Learned: TypeAlias = Annotated[Learned, Field(discriminator="kind")]
_Tokenizer: TypeAlias = Annotated[Learned | Pretrained, Field(discriminator="kind")]

#: One that is learned from texts, such as `char` or `{kind: word, min_count: 2}`, or given as codes or pieces.
LearnedTokenizer: TypeAlias = Annotated[
    _Learned, BeforeValidator(kinded("word"), json_schema_input_type=str | _Learned)
]
#: Likewise, or that of a pretrained model.
Tokenizer: TypeAlias = Annotated[_Tokenizer, BeforeValidator(kinded("word"), json_schema_input_type=str | _Tokenizer)]
