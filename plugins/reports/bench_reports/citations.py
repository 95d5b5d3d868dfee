"""What to cite for a suite: the references of its parts and corpora, from the `citations.bib` of each package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.errors import PluginError
from bench_core.registry import hook

if TYPE_CHECKING:
    from bench_core.config import Config

OWN = "bench_core"  #: the package whose file has the project itself
CORE = "bench"  #: its key
FILE = "citations.bib"
WORD = re.compile(r"(?:(?P<setting>[\w.]+)=(?P<value>[^:]*): )?(?P<key>\S+)")


@dataclass(frozen=True)
class Reference:
    """An entry of BibTeX."""

    key: str
    kind: str  # such as article
    fields: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


@dataclass
class References:
    """References in the order in which they are needed, each once, with all that it is needed for."""

    found: dict[str, Reference] = field(default_factory=dict)
    users: dict[str, list[str]] = field(default_factory=dict)  # by key
    without: list[str] = field(default_factory=list)  # what names none, and why

    def add(self, user: str, references: Iterable[Reference]) -> None:
        """Note what a part or corpus is to be cited by; of what it is not known, note that."""
        some = [*references]
        for one in some:
            users = self.users.setdefault(self._key(one), [])
            if user not in users:
                users.append(user)
        if not some:
            self.without.append(user)

    def _key(self, one: Reference) -> str:
        """Return the key of a reference: its own, if no other has it; that of the same work, if there is one."""
        for key, other in self.found.items():
            if _work(other) == _work(one):
                return key
        key, number = one.key, 2
        while key in self.found:
            key, number = f"{one.key}-{number}", number + 1
        self.found[key] = replace(one, key=key)
        return key


def _work(one: Reference) -> tuple[str, str]:
    """Return what two references to one work have in common, whatever their keys."""
    title = re.sub(r"\\.|[^a-z0-9]", "", one.fields.get("title", one.key).lower())
    return title, one.fields.get("year", "")


def of_part(config: type[Config], settings: Mapping[str, Any]) -> list[Reference]:
    """Return the references of a part under its settings; raise PluginError for a key that no file has."""
    found = []
    for word in config.cites:
        told = WORD.fullmatch(word)
        if told is None:
            raise PluginError(f'{config.name!r} cites {word!r}. Write "KEY" or "SETTING=VALUE: KEY".')
        if told["setting"] is None or _spelled(_value(settings, told["setting"])) == told["value"]:
            found.append(_looked_up(config, told["key"]))
    return found


def _value(settings: Any, name: str) -> Any:
    """Return the value of a setting, `a.b` being b inside of a; None where there is no such thing."""
    for word in name.split("."):
        settings = settings.get(word) if isinstance(settings, Mapping) else None
    return settings


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _looked_up(config: type[Config], key: str) -> Reference:
    """Return a reference from the package of a part, or of one that it builds on."""
    packages = dict.fromkeys(kind.__module__.partition(".")[0] for kind in config.__mro__)
    for package in packages:
        if key in (known := bibliography(package)):
            return known[key]
    raise PluginError(f"{config.name!r} cites {key!r}, which is not in the {FILE} of {next(iter(packages))}.")


def of_corpus(name: str) -> list[Reference]:
    """Return the references of a corpus that some plugin knows; none of another."""
    answers: Any = hook().bench_corpus_citations.get_hookimpls()
    known = {one.function.__module__.partition(".")[0]: one.function(corpus=name) for one in answers}
    return [bibliography(package)[key] for package, keys in known.items() for key in keys]


def of_core() -> Reference:
    """Return the reference of this project itself."""
    return bibliography(OWN)[CORE]


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
