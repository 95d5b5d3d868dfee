"""The settings of word lists."""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag

from bench_core import Settings
from bench_language_modeling.api import Corpus as TextCorpus

FOLDER = "word-frequency"  #: of the data directory
LISTS = ("count_1w.txt.gz", "en_50k.txt")  #: its files


def _known(file: Path) -> Path:
    return Path(FOLDER, file) if str(file) in LISTS else file


class FrequencyList(Settings):
    """Words and how often each occurs: one of `LISTS`, or a user's own file."""

    file: Annotated[Path, AfterValidator(_known)]  #: a word and its count a line


def _listed(value: Any) -> Any:
    """Take the name of a known list for a mapping that holds nothing else."""
    if value == FOLDER:
        raise ValueError(f"{FOLDER!r} holds several lists of words. Name one: {' or '.join(LISTS)}")
    return {"file": value} if value in LISTS else value


def _choice(value: Any) -> str:
    listed = isinstance(value, FrequencyList) or (isinstance(value, dict) and "file" in value)
    return "list" if listed else "text"


_Corpus: TypeAlias = Annotated[
    Annotated[FrequencyList, Tag("list")] | Annotated[TextCorpus, Tag("text")], Discriminator(_choice)
]
Corpus: TypeAlias = Annotated[_Corpus, BeforeValidator(_listed, json_schema_input_type=str | _Corpus)]
