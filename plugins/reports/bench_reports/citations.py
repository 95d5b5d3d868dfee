"""References to cite for a suite or a run, from the `citations.bib` of each package."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from bench_core.config import Config, DecoderConfig, MetricConfig, ModelConfig, TaskConfig, configs_inside
from bench_core.errors import PluginError
from bench_core.registry import PartKind, hook
from bench_core.registry import parts as parts_of
from bench_core.runs.provenance import recorded_meaning
from bench_core.runs.results import read_run
from bench_core.suites import yaml_source as located
from bench_core.suites.grids import expand, origins, word
from bench_core.suites.load import load
from bench_core.suites.parts import Parts
from bench_core.terminal import visible
from placed_settings import Problems

FILE = "citations.bib"
OWN = "bench_core"  #: the package whose file has the project itself
CORE = "bench"  #: its key
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

    def add(self, user: str, references: Sequence[Reference]) -> None:
        """Note what a part or corpus is to be cited by; of what it is not known, note that."""
        for one in references:
            users = self.users.setdefault(self._key(one), [])
            if user not in users:
                users.append(user)
        if not references:
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


def bibliography(package: str) -> dict[str, Reference]:
    """Return the references of a package by key; none where it has no such file."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec else None
    files = [path for place in places or () if (path := Path(place) / FILE).is_file()]
    return {one.key: one for path in files for one in parsed(path.read_text(encoding="utf-8"), path)}


def parsed(text: str, path: Path) -> Iterator[Reference]:
    """Yield the entries of a BibTeX file; raise PluginError, with file and line, for what is none."""
    from pybtex.database import BibliographyData
    from pybtex.database.input.bibtex import Parser
    from pybtex.exceptions import PybtexError
    from pybtex.scanner import PybtexSyntaxError

    try:
        found: BibliographyData = Parser(encoding="utf-8").parse_string(text)
    except PybtexError as error:
        line = f":{error.lineno}" if isinstance(error, PybtexSyntaxError) else ""
        raise PluginError(f"{path}{line}: {error}.") from None
    for key, entry in found.entries.items():
        people = {role: " and ".join(map(str, persons)) for role, persons in entry.persons.items()}
        fields = {name.lower(): " ".join(value.split()) for name, value in {**people, **entry.fields}.items()}
        yield Reference(key, entry.type, fields)


def of_part(config: type[Config], settings: Mapping[str, Any]) -> list[Reference]:
    """Return the references of a part under its settings; raise PluginError for a key that no file has."""
    found = []
    for cited in config.cites:
        match = WORD.fullmatch(cited)
        if match is None:
            raise PluginError(f'{config.name!r} cites {cited!r}. Write "KEY" or "SETTING=VALUE: KEY".')
        if match["setting"] is None or word(_value(settings, match["setting"])) == match["value"]:
            found.append(_looked_up(config, match["key"]))
    return found


def _value(settings: Any, name: str) -> Any:
    """Return the value of a setting, `a.b` being b inside of a; None where there is no such thing."""
    for key in name.split("."):
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    return settings


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


Named: TypeAlias = tuple[PartKind, str, str, Config | None]  # kind, the suite's name, the part's, and its settings
Sections: TypeAlias = Mapping[PartKind, Mapping[str, Any]]  # settings by the suite's names


def of_suite(path: Path, profile: str | None, settings: Iterable[str]) -> tuple[str, str, list[Named]]:
    """Return label, source and parts of a suite file; raise SuiteError with every mistake in it."""
    suite = load(path, profile, [*settings])
    models = {name: entry.config for name, entry in suite.models.items()}
    sections: Sections = {
        "task": suite.tasks, "model": models, "decoder": suite.decoders, "metric": suite.metrics,
        "probe": suite.probes,
    }  # fmt: skip
    by_task = ((name, one.config) for name, entry in suite.models.items() for one in entry.by_task.values())
    others: list[Named] = [("model", suite.origins.get(name, name), one.name, one) for name, one in by_task]
    return suite.label, suite.source, [*_named(sections, suite.origins), *others]


def of_run(folder: Path) -> tuple[str, str, list[Named]]:
    """Return label, source and parts of a run; of those that are not installed here, only the names."""
    run = read_run(folder)
    source = located.read(folder / "suite.yaml")
    problems = Problems(source)
    grids = origins(expand(source, problems))
    parts = Parts(source.data, problems, grids)
    with recorded_meaning(folder):
        sections: Sections = {
            "task": parts.configs("task", TaskConfig),
            "model": parts.configs("model", ModelConfig),
            "decoder": parts.configs("decoder", DecoderConfig),
            "metric": parts.configs("metric", MetricConfig),
            "probe": parts.probes(parts.models()),
        }
    named = [*_named(sections, grids, source.data)]
    return str(run.info["label"]), str(run.info.get("source") or run.suite.source), named


def _named(sections: Sections, grids: Mapping[str, str], data: Mapping[str, Any] | None = None) -> Iterator[Named]:
    """Yield the parts of all sections, and those that are not installed, of which there is only what the data say."""
    for kind, section in sections.items():
        given: Mapping[str, Any] = (data or {}).get(f"{kind}s") or {}
        for name in dict.fromkeys([*given, *section]):
            config = section.get(name)
            called = config.name if config else str(given[name].get("name"))
            yield kind, grids.get(name, name) if kind == "model" else name, called, config


def gathered(parts: Iterable[Named]) -> References:
    """Return the references of parts and of the corpora that they read, those of tasks first."""
    found = References()
    found.add("bench", [bibliography(OWN)[CORE]])
    for kind, name, of, config in parts:
        called = f"{kind} {name}" if name == of else f"{kind} {name} ({of})"
        if config is None:
            found.without.append(f"{called}: no such part is installed here, or only another version of it")
            continue
        settings = config.model_dump(mode="json")
        distribution = next(one.distribution for one in parts_of(kind).values() if one.config is type(config))
        references = of_part(type(config), settings)
        found.add(called if references else f"{called}: {distribution} names none", references)
        for inner in configs_inside(config):
            found.add(f"{inner.name} in {called}", of_part(type(inner), inner.model_dump(mode="json")))
        corpus = settings.get("corpus") if kind == "task" else None
        if isinstance(corpus, Mapping):
            corpus = str(corpus.get("name") or "of own files")
        if isinstance(corpus, str):
            known = of_corpus(corpus)
            found.add(f"corpus {corpus}" if known else f"corpus {corpus} of task {name}: none is known", known)
    found.without = list(dict.fromkeys(found.without))
    return found


def plain(found: References) -> Any:
    """Return references as JSON data."""
    return {
        "references": [
            {"key": key, "type": one.kind, "fields": dict(one.fields), "for": found.users[key]}
            for key, one in found.found.items()
        ],
        "without": found.without,
    }


def text(found: References, label: str, source: str) -> str:
    """Return references as a BibTeX file, what each is for in a comment before it."""
    blocks = [_comment([f"What {label} used: references gathered by `bench cite`."])]
    blocks += [_comment([f"It is after {source}"])] if source else []
    blocks += [f"{_comment(found.users[key])}\n{one}" for key, one in found.found.items()]
    blocks += [_comment(["Without a reference:", *found.without])] if found.without else []
    return "\n\n".join(blocks)


def _comment(lines: Iterable[str]) -> str:
    """Return lines that BibTeX passes over: outside of entries, only an @ means something to it."""
    return "\n".join(f"% {visible(line).replace('@', '(at)')}" for line in lines)
