"""The settings of corpora and tokenizers."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from bench_text.api import SPLITS, CorpusSplits, OwnSplits, TestName, by_name


class Text(CorpusSplits):
    """What all corpora have in common."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the splits that are read."""
        return tuple(filter(self.has, SPLITS))


class Named(Text):
    """`cpython-docs`, or a folder of the data directory."""

    name: str  #: of the corpus, see `bench data list`, or of the folder


class Files(OwnSplits, Text):
    """A user's own files: a paragraph or sentence a line, words set apart."""

    train: Path | None = None  #: text to train on
    valid: Path | None = None  #: text to choose weights and settings by
    test: Path | None = None  #: text to report on
    tests: dict[TestName, Path] = {}  #: further test sets by name; each is a split of that name

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if not self.own:
            raise ValueError("give the file of at least one of `train`, `valid`, `test` and `tests`")
        return self

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.own)


class English(Text):
    """Generated English-like sentences; valid and test have a tenth of the training sentences each."""

    name: Literal["english"]
    sentences: PositiveInt = 20_000  #: of the training split
    seed: int = 0  #: of what is drawn; the same one gives the same text


class Diagnostic(Text):
    """A generated stream whose best possible model is known; valid and test have a tenth of the tokens each."""

    tokens: PositiveInt = 20_000  #: of the training split
    length: PositiveInt = 50  # tokens a line
    seed: int = 0  #: of what is drawn; the same one gives the same text


class Cycle(Diagnostic):
    """`states` tokens in turn, for ever."""

    name: Literal["cycle"]
    states: PositiveInt = 10  #: different tokens


class Lag(Diagnostic):
    """Each token equals the one `lag` steps before, or, with probability `fresh`, is drawn anew."""

    name: Literal["lag"]
    states: PositiveInt = 10  #: different tokens
    lag: PositiveInt = 5  #: tokens from a token to the one that it repeats
    fresh: float = Field(0.1, ge=0, le=1)  #: the probability that a token is drawn anew


class Markov(Diagnostic):
    """A random chain: each token depends on the one before."""

    name: Literal["markov"]
    states: PositiveInt = 20  #: different tokens
    successors: PositiveInt | None = None  #: so many of them may follow each, and none else; by default all

    @model_validator(mode="after")
    def _others_are_left(self) -> Self:
        if self.successors and self.successors >= self.states:
            raise ValueError(f"`successors` are some of the {self.states} `states`, and {self.successors} are not")
        return self


class Copy(Diagnostic):
    """`length` random tokens, a separator, and the same tokens again; `length` counts one of the two."""

    name: Literal["copy"]
    states: PositiveInt = 10  #: different tokens
    length: PositiveInt = 10  #: tokens of a part, which is then repeated


GENERATED = ("english", "copy", "cycle", "lag", "markov")


def _choice(value: Any) -> str:
    name = value.get("name", "files") if isinstance(value, dict) else getattr(value, "name", "files")
    return name if name in ("files", *GENERATED) else "named"


_Corpus: TypeAlias = Annotated[
    Annotated[Named, Tag("named")]
    | Annotated[Files, Tag("files")]
    | Annotated[English, Tag("english")]
    | Annotated[Copy, Tag("copy")]
    | Annotated[Cycle, Tag("cycle")]
    | Annotated[Lag, Tag("lag")]
    | Annotated[Markov, Tag("markov")],
    Discriminator(_choice),
]
Corpus: TypeAlias = Annotated[_Corpus, BeforeValidator(by_name(), json_schema_input_type=str | _Corpus)]
