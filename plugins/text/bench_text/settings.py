"""The settings of tokenizers, and of corpora by name; does not import torch."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PositiveInt, StringConstraints

from bench_core import PathOrName, Settings, kinded
from bench_text.corpora import SPLITS


def by_name(alternative: str = "files for train, valid, test") -> Callable[[Any], Any]:
    """Return a validator that converts a plain string to `{name: STRING}`; `alternative` describes other inputs."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict | Settings):
            return value
        raise ValueError(f"use the name of a corpus, a mapping with its name and settings, or {alternative}")

    return check


def _no_split(name: str) -> str:
    if name in SPLITS:
        raise ValueError(f"a test set cannot be called {name!r}, which is the name of a split. Rename it")
    return name


#: The name of a test set, which becomes a split of that name.
TestName: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=60), AfterValidator(_no_split)
]


class CorpusSplits(Settings):
    """A corpus from which splits may be excluded."""

    only: tuple[str, ...] | None = Field(None, min_length=1)  #: the splits to read; default: all

    def has(self, split: str) -> bool:
        """Return whether a split of this name is read, if it exists."""
        return self.only is None or split in self.only

    def restricted(self, *splits: str) -> Self:
        """Return the corpus restricted to the given splits."""
        return self.model_copy(update={"only": tuple(filter(self.has, splits))})

    def trained_on(self) -> Self:
        """Return the corpus restricted to the splits that training reads."""
        return self.restricted("train", "valid")


class OwnSplits(CorpusSplits):
    """A corpus with user-provided splits: `train`, `valid`, `test`, and further test sets by name in `tests`."""

    if TYPE_CHECKING:
        tests: dict[Any, Any]

    @property
    def own(self) -> dict[str, Any]:
        """The settings of each user-provided split that is read."""
        provided = {split: value for split in SPLITS if (value := getattr(self, split)) is not None} | self.tests
        return {split: value for split, value in provided.items() if self.has(split)}

    def restricted(self, *splits: str) -> Self:
        tests = {name: value for name, value in self.tests.items() if name in splits}
        removed = {split: None for split in SPLITS if split not in splits}
        return super().restricted(*splits).model_copy(update={**removed, "tests": tests})


def as_list(value: Any) -> Any:
    """Convert a single string or path to a list."""
    return [value] if isinstance(value, str | Path) else value


def both_sides(value: Any) -> Any:
    """Use the same settings for source and target unless they are given separately."""
    if hasattr(value, "source") or (isinstance(value, dict) and {"source", "target"} & set(value)):
        return value
    return {"source": value, "target": value}


#: A file or a list of files.
Paths: TypeAlias = Annotated[
    list[Path], Field(min_length=1), BeforeValidator(as_list, json_schema_input_type=Path | list[Path])
]


class Words(Settings):
    """Words separated by white space, so line breaks become spaces; rare words become `<unk>`."""

    kind: Literal["word"] = "word"
    min_count: PositiveInt = 1  # minimum occurrences of a word in the vocabulary
    most_words: PositiveInt | None = None  # maximum number of words, the most frequent ones


class Characters(Settings):
    """Unicode characters, including spaces and line breaks."""

    kind: Literal["char"]


class BytePairs(Settings):
    """Byte pair encoding of words and white space, learned from the training split."""

    kind: Literal["bpe"]
    vocab_size: int = Field(20_000, ge=259)  # includes 256 bytes and three special tokens
    dropout: float = Field(0.0, ge=0, lt=1)  #: probability of skipping a merge in training, resampled each epoch


class Codes(Settings):
    """Existing subword-nmt codes, applied to words between spaces; pieces inside a word end with `@@`."""

    kind: Literal["codes"]
    codes: Path  #: output of `subword-nmt learn-bpe`
    vocabulary: Path | None = None  #: output of `subword-nmt get-vocab`; other pieces are split further
    threshold: PositiveInt = 1  #: minimum occurrences of a piece in `vocabulary`
    dropout: float = Field(0.0, ge=0, lt=1)  #: probability of skipping a merge in training, resampled each epoch


class SentencePiece(Settings):
    """The pieces of an existing SentencePiece model, including its text normalization."""

    kind: Literal["sentencepiece"]
    model: Path  #: model file, usually `*.model`


class Pretrained(Settings):
    """The tokens of a pretrained model, from `tokenizer.json` in a folder."""

    kind: Literal["pretrained"]
    path: PathOrName  #: folder, relative to the suite, the working directory or the data directory
    stop: str | None = None  # EOS; default: from the files next to the tokenizer


Learned: TypeAlias = Words | Characters | BytePairs | Codes | SentencePiece
_Learned: TypeAlias = Annotated[Learned, Field(discriminator="kind")]
_Tokenizer: TypeAlias = Annotated[Learned | Pretrained, Field(discriminator="kind")]

#: A tokenizer learned from texts, such as `char` or `{kind: word, min_count: 2}`, or from existing codes or pieces.
LearnedTokenizer: TypeAlias = Annotated[
    _Learned, BeforeValidator(kinded("word"), json_schema_input_type=str | _Learned)
]
#: A `LearnedTokenizer`, or the tokenizer of a pretrained model.
Tokenizer: TypeAlias = Annotated[_Tokenizer, BeforeValidator(kinded("word"), json_schema_input_type=str | _Tokenizer)]
