"""The settings of corpora."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from bench_text.api import SPLITS, CorpusSplits, OwnSplits, TestName, by_name


class PlainCorpus(CorpusSplits):
    """Base class of the settings of text corpora."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are read."""
        return tuple(filter(self.has, SPLITS))


class NamedText(PlainCorpus):
    """`cpython-docs`, or a folder in the data directory."""

    name: str  #: corpus (see `bench data list`) or folder


class TextFiles(OwnSplits, PlainCorpus):
    """The user's files, with a paragraph or sentence per line and words separated by white space."""

    train: Path | None = None  #: training text
    valid: Path | None = None  #: text for choosing weights and settings
    test: Path | None = None  #: text to report results on
    tests: dict[TestName, Path] = {}  #: further test sets by name; each is a split of that name

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if not self.own:
            raise ValueError("give the file of at least one of `train`, `valid`, `test` and `tests`")
        return self

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.own)


class English(PlainCorpus):
    """Generated English-like sentences; valid and test each have a tenth of the training sentences."""

    name: Literal["english"]
    sentences: PositiveInt = 20_000  #: number of training sentences
    seed: int = 0  #: random seed


class Diagnostic(PlainCorpus):
    """A generated stream with a known optimal model; valid and test each have a tenth of the training tokens."""

    tokens: PositiveInt = 20_000  #: number of training tokens
    length: PositiveInt = 50  #: tokens per line
    seed: int = 0  #: random seed


class Cycle(Diagnostic):
    """A cycle of `states` tokens, repeated forever."""

    name: Literal["cycle"]
    states: PositiveInt = 10  #: number of distinct tokens


class Lag(Diagnostic):
    """Each token equals the token `lag` steps earlier or, with probability `fresh`, is random."""

    name: Literal["lag"]
    states: PositiveInt = 10  #: number of distinct tokens
    lag: PositiveInt = 5  #: distance between a token and its repetition
    fresh: float = Field(0.1, ge=0, le=1)  #: probability that a token is random


class Markov(Diagnostic):
    """A random Markov chain: each token depends on the previous token."""

    name: Literal["markov"]
    states: PositiveInt = 20  #: number of distinct tokens
    successors: PositiveInt | None = None  #: number of tokens that may follow each token; default: all

    @model_validator(mode="after")
    def _check_successors(self) -> Self:
        if self.successors and self.successors >= self.states:
            raise ValueError(f"`successors` must be less than `states` ({self.states}), not {self.successors}")
        return self


class Copy(Diagnostic):
    """`length` random tokens, a separator, and the same tokens again."""

    name: Literal["copy"]
    states: PositiveInt = 10  #: number of distinct tokens
    length: PositiveInt = 10  #: number of tokens before the separator, which are repeated after it


class HiddenChain(Diagnostic):
    """A hidden Markov model: each token depends on a hidden state, and each state on the previous state."""

    name: Literal["hmm"]
    states: PositiveInt = 8  #: number of hidden states
    symbols: PositiveInt = 8  #: number of distinct tokens
    successors: PositiveInt | None = None  #: number of states that may follow each state; default: all

    @model_validator(mode="after")
    def _check_hidden_successors(self) -> Self:
        check_successors(self.states, self.successors)
        return self


def check_successors(states: int, successors: int | None) -> None:
    """Raise ValueError unless the number of successors of a hidden state leaves every state reachable."""
    if successors and successors > states:
        raise ValueError(f"`successors` must be at most `states` ({states}), not {successors}")


GENERATED = ("english", "copy", "cycle", "hmm", "lag", "markov")


def _choice(value: Any) -> str:
    name = value.get("name", "files") if isinstance(value, dict) else getattr(value, "name", "files")
    return name if name in ("files", *GENERATED) else "named"


_Corpus: TypeAlias = Annotated[
    Annotated[NamedText, Tag("named")]
    | Annotated[TextFiles, Tag("files")]
    | Annotated[English, Tag("english")]
    | Annotated[Copy, Tag("copy")]
    | Annotated[Cycle, Tag("cycle")]
    | Annotated[Lag, Tag("lag")]
    | Annotated[Markov, Tag("markov")]
    | Annotated[HiddenChain, Tag("hmm")],
    Discriminator(_choice),
]
Corpus: TypeAlias = Annotated[_Corpus, BeforeValidator(by_name(), json_schema_input_type=str | _Corpus)]
