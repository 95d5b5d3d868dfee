"""The settings of word lists."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from bench_core import Settings
from bench_language_modeling.api import Corpus as TextCorpus
from bench_language_modeling.api import check_successors

FOLDER = "word-frequency"  #: folder in the data directory
LISTS = ("count_1w.txt.gz", "en_50k.txt")  #: files in this folder


def _resolve(file: Path) -> Path:
    return Path(FOLDER, file) if str(file) in LISTS else file


class FrequencyList(Settings):
    """Words and their counts: one of `LISTS`, or a user's file."""

    file: Annotated[Path, AfterValidator(_resolve)]  #: file with a word and its count per line


class HiddenMarkovWords(Settings):
    """Words sampled from a hidden Markov model, so that the probability of each word is known."""

    name: Literal["hmm"]
    states: Annotated[int, Field(ge=2)] = 8  #: number of hidden states; words start in the first half of them
    symbols: Annotated[int, Field(ge=2, le=20_000)] = (
        8  #: number of distinct letters: a to z, then Chinese characters
    )
    successors: PositiveInt | None = None  #: number of states that may follow each state; default: all
    end: Annotated[float, Field(gt=0, lt=1)] = 0.5  #: probability that a word ends in a state of the last half
    words: Annotated[int, Field(ge=1, le=10**7)] = 100_000  #: number of sampled words, including valid and test
    seed: int = 0  #: random seed of the model and of the words

    @model_validator(mode="after")
    def _check_successors(self) -> Self:
        check_successors(self.states, self.successors)
        return self

    @property
    def letters(self) -> str:
        """The letters that words consist of."""
        return "".join(chr(ord("a") + place if place < 26 else 0x4E00 + place - 26) for place in range(self.symbols))


def _from_name(value: Any) -> Any:
    """Convert the name of a known list to a mapping."""
    if value == FOLDER:
        raise ValueError(f"{FOLDER!r} has several word lists. Choose one: {' or '.join(LISTS)}")
    return {"file": value} if value in LISTS else {"name": value} if value == "hmm" else value


def _choice(value: Any) -> str:
    settings = value if isinstance(value, dict) else {}
    if isinstance(value, HiddenMarkovWords) or settings.get("name") == "hmm":
        return "hmm"
    return "list" if isinstance(value, FrequencyList) or "file" in settings else "text"


_Corpus: TypeAlias = Annotated[
    Annotated[FrequencyList, Tag("list")]
    | Annotated[HiddenMarkovWords, Tag("hmm")]
    | Annotated[TextCorpus, Tag("text")],
    Discriminator(_choice),
]
Corpus: TypeAlias = Annotated[_Corpus, BeforeValidator(_from_name, json_schema_input_type=str | _Corpus)]
