"""The `citations.bib` of packages, read by pybtex."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench_core.errors import PluginError

FILE = "citations.bib"


@dataclass(frozen=True)
class Reference:
    """An entry of BibTeX."""

    key: str
    kind: str  # such as article
    fields: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def bibliography(package: str) -> dict[str, Reference]:
    """Return the references of a package by key; none where it has no such file."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec else None
    files = [path for place in places or () if (path := Path(place) / FILE).is_file()]
    return {one.key: one for path in files for one in parsed(path.read_text(encoding="utf-8"), path)}


def parsed(text: str, path: Path) -> Iterator[Reference]:
    """Yield the entries of a BibTeX file; raise PluginError, with file and line, for what is none."""
    from pybtex.database import BibliographyData, BibliographyDataError
    from pybtex.database.input.bibtex import Parser
    from pybtex.exceptions import PybtexError
    from pybtex.scanner import PybtexSyntaxError

    try:
        found: BibliographyData = Parser(encoding="utf-8").parse_string(text)
    except PybtexSyntaxError as error:
        raise PluginError(f"{path}:{error.lineno}: {error}.") from None
    except (BibliographyDataError, PybtexError) as error:
        raise PluginError(f"{path}: {error}.") from None
    for key, entry in found.entries.items():
        people = {role: " and ".join(map(str, persons)) for role, persons in entry.persons.items()}
        fields = {name.lower(): " ".join(value.split()) for name, value in {**people, **entry.fields}.items()}
        yield Reference(key, entry.type, fields)
