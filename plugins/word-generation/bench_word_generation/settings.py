"""The settings of word lists."""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag

from bench_core import Settings
from bench_language_modeling.api import Corpus as TextCorpus

FOLDER = "word-frequency"  #: folder in the data directory
LISTS = ("count_1w.txt.gz", "en_50k.txt")  #: files in this folder


def _resolve(file: Path) -> Path:
    return Path(FOLDER, file) if str(file) in LISTS else file


class FrequencyList(Settings):
    """Words and their counts: one of `LISTS`, or a user's file."""

    file: Annotated[Path, AfterValidator(_resolve)]  #: file with a word and its count per line


def _from_name(value: Any) -> Any:
    """Convert the name of a known list to a mapping."""
    if value == FOLDER:
        raise ValueError(f"{FOLDER!r} has several word lists. Choose one: {' or '.join(LISTS)}")
    return {"file": value} if value in LISTS else value


def _choice(value: Any) -> str:
    is_list = isinstance(value, FrequencyList) or (isinstance(value, dict) and "file" in value)
    return "list" if is_list else "text"


_Corpus: TypeAlias = Annotated[
    Annotated[FrequencyList, Tag("list")] | Annotated[TextCorpus, Tag("text")], Discriminator(_choice)
]
Corpus: TypeAlias = Annotated[_Corpus, BeforeValidator(_from_name, json_schema_input_type=str | _Corpus)]
