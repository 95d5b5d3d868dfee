"""Settings of corpora with pseudo-code and code."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag

from bench_text.api import CorpusSplits, by_name
from bench_translation.api import ParallelFiles


class CPythonPairs(CorpusSplits):
    """Lines of Python's standard library, described by rules; valid and test have a tenth of `pairs` each."""

    name: Literal["cpython-pairs"]
    pairs: int = Field(10_000, ge=20)  #: maximum number of training pairs


class NamedCode(CorpusSplits):
    """A corpus of the catalogue."""

    name: Literal["django", "django-clean"]  #: name of the corpus and of its folder in the data directory


KNOWN = ("cpython-pairs", "django", "django-clean")


def _check_name(value: Any) -> Any:
    """Convert a plain name to a mapping; raise ValueError if no corpus of code has that name."""
    value = by_name()(value)
    if isinstance(value, dict) and (name := value.get("name", KNOWN[0])) not in KNOWN:
        raise ValueError(f"no corpus of code is called {name!r}. Use your own files, or one of: {', '.join(KNOWN)}")
    return value


def _tag(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    return "files" if name is None else "embedded" if name == KNOWN[0] else "named"


_Corpus: TypeAlias = Annotated[
    Annotated[CPythonPairs, Tag("embedded")]
    | Annotated[NamedCode, Tag("named")]
    | Annotated[ParallelFiles, Tag("files")],
    Discriminator(_tag),
]
Corpus: TypeAlias = Annotated[_Corpus, BeforeValidator(_check_name, json_schema_input_type=str | _Corpus)]
