"""References for a suite or a run, from the `citations.bib` of each package."""

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
PACKAGE = "bench_core"  #: package with the reference for the project itself
CORE = "bench"  #: key of that reference
WORD = re.compile(r"(?:(?P<setting>[\w.]+)=(?P<value>[^:]*): )?(?P<key>\S+)")


@dataclass(frozen=True)
class Citation:
    """A BibTeX entry."""

    key: str
    kind: str  # such as `article`
    fields: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


@dataclass
class Citations:
    """References without duplicates, in order of first use, with the parts and corpora that use them."""

    entries: dict[str, Citation] = field(default_factory=dict)
    users: dict[str, list[str]] = field(default_factory=dict)  # users of each reference, by its key
    without: list[str] = field(default_factory=list)  # users without a reference, with the reason

    def add(self, user: str, references: Sequence[Citation]) -> None:
        """Add the references of a part or corpus, or note that it has none."""
        for reference in references:
            users = self.users.setdefault(self._key(reference), [])
            if user not in users:
                users.append(user)
        if not references:
            self.without.append(user)

    def _key(self, reference: Citation) -> str:
        """Return the key under which the work is already listed; otherwise, add the reference under a unique key."""
        for key, other in self.entries.items():
            if _work(other) == _work(reference):
                return key
        key, number = reference.key, 2
        while key in self.entries:
            key, number = f"{reference.key}-{number}", number + 1
        self.entries[key] = replace(reference, key=key)
        return key


def _work(reference: Citation) -> tuple[str, str]:
    """Return normalized title and year, equal for references to the same work."""
    title = re.sub(r"\\.|[^a-z0-9]", "", reference.fields.get("title", reference.key).lower())
    return title, reference.fields.get("year", "")


def bibliography(package: str) -> dict[str, Citation]:
    """Return the references of a package by key; empty if it has no `citations.bib`."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec else None
    files = [path for place in places or () if (path := Path(place) / FILE).is_file()]
    return {entry.key: entry for path in files for entry in parse_bibtex(path.read_text(encoding="utf-8"), path)}


def parse_bibtex(text: str, path: Path) -> Iterator[Citation]:
    """Yield the entries of a BibTeX file; raise PluginError, with file and line, for syntax errors."""
    from pybtex.database import BibliographyData
    from pybtex.database.input.bibtex import Parser
    from pybtex.exceptions import PybtexError
    from pybtex.scanner import PybtexSyntaxError

    try:
        data: BibliographyData = Parser(encoding="utf-8").parse_string(text)
    except PybtexError as error:
        line = f":{error.lineno}" if isinstance(error, PybtexSyntaxError) else ""
        raise PluginError(f"{path}{line}: {error}.") from None
    for key, entry in data.entries.items():
        people = {role: " and ".join(map(str, persons)) for role, persons in entry.persons.items()}
        fields = {name.lower(): " ".join(value.split()) for name, value in {**people, **entry.fields}.items()}
        yield Citation(key, entry.type, fields)


def of_part(config: type[Config], settings: Mapping[str, Any]) -> list[Citation]:
    """Return the references that a part cites with these settings; raise PluginError for unknown keys."""
    references = []
    for cited in config.cites:
        match = WORD.fullmatch(cited)
        if match is None:
            raise PluginError(f'{config.name!r} cites {cited!r}. Write "KEY" or "SETTING=VALUE: KEY".')
        if match["setting"] is None or word(_value(settings, match["setting"])) == match["value"]:
            references.append(_look_up(config, match["key"]))
    return references


def _value(settings: Any, name: str) -> Any:
    """Return the value of a setting, such as `a.b` for `b` inside `a`; None if the setting does not exist."""
    for key in name.split("."):
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    return settings


def _look_up(config: type[Config], key: str) -> Citation:
    """Return a reference from the package of a part, or of a class that the part extends."""
    packages = dict.fromkeys(kind.__module__.partition(".")[0] for kind in config.__mro__)
    for package in packages:
        if key in (references := bibliography(package)):
            return references[key]
    raise PluginError(f"{config.name!r} cites {key!r}, which is not in the {FILE} of {next(iter(packages))}.")


def of_corpus(name: str) -> list[Citation]:
    """Return the references of a corpus from the plugins that provide them; empty for other corpora."""
    hooks: Any = hook().bench_corpus_citations.get_hookimpls()
    by_package = {impl.function.__module__.partition(".")[0]: impl.function(corpus=name) for impl in hooks}
    return [bibliography(package)[key] for package, keys in by_package.items() for key in keys]


NamedPart: TypeAlias = tuple[PartKind, str, str, Config | None]  # kind, name in the suite, registered name, settings
Sections: TypeAlias = Mapping[PartKind, Mapping[str, Any]]  # settings by name in the suite


def of_suite(path: Path, profile: str | None, settings: Iterable[str]) -> tuple[str, str, list[NamedPart]]:
    """Return label, source and parts of a suite file; raise SuiteError with all its mistakes."""
    suite = load(path, profile, [*settings])
    models = {name: entry.config for name, entry in suite.models.items()}
    sections: Sections = {
        "task": suite.tasks, "model": models, "decoder": suite.decoders, "metric": suite.metrics,
        "probe": suite.probes,
    }  # fmt: skip
    by_task = ((name, variant.config) for name, entry in suite.models.items() for variant in entry.by_task.values())
    others: list[NamedPart] = [
        ("model", suite.origins.get(name, name), config.name, config) for name, config in by_task
    ]
    return suite.label, suite.source, [*_named_parts(sections, suite.origins), *others]


def of_run(folder: Path) -> tuple[str, str, list[NamedPart]]:
    """Return label, source and parts of a run; parts that are not installed have no settings."""
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
    named = [*_named_parts(sections, grids, source.data)]
    return str(run.info["label"]), str(run.info.get("source") or run.suite.source), named


def _named_parts(
    sections: Sections, grids: Mapping[str, str], data: Mapping[str, Any] | None = None
) -> Iterator[NamedPart]:
    """Yield the parts of all sections, including parts of the suite's data that are not installed."""
    for kind, section in sections.items():
        declared: Mapping[str, Any] = (data or {}).get(f"{kind}s") or {}
        for name in dict.fromkeys([*declared, *section]):
            config = section.get(name)
            registered = config.name if config else str(declared[name].get("name"))
            yield kind, grids.get(name, name) if kind == "model" else name, registered, config


def collect(parts: Iterable[NamedPart]) -> Citations:
    """Return the references of parts and of the corpora that they read, in order of the parts."""
    collected = Citations()
    collected.add("bench", [bibliography(PACKAGE)[CORE]])
    for kind, name, of, config in parts:
        user = f"{kind} {name}" if name == of else f"{kind} {name} ({of})"
        if config is None:
            collected.without.append(f"{user}: not installed, or installed in another version")
            continue
        settings = config.model_dump(mode="json")
        distribution = next(part.distribution for part in parts_of(kind).values() if part.config is type(config))
        references = of_part(type(config), settings)
        collected.add(user if references else f"{user}: {distribution} provides no reference", references)
        for inner in configs_inside(config):
            collected.add(f"{inner.name} in {user}", of_part(type(inner), inner.model_dump(mode="json")))
        corpus = settings.get("corpus") if kind == "task" else None
        if isinstance(corpus, Mapping):
            corpus = str(corpus.get("name") or "of local files")
        if isinstance(corpus, str):
            sources = of_corpus(corpus)
            collected.add(f"corpus {corpus}" if sources else f"corpus {corpus} of task {name}: unknown", sources)
    collected.without = list(dict.fromkeys(collected.without))
    return collected


def plain(references: Citations) -> Any:
    """Return references as JSON data."""
    return {
        "references": [
            {"key": key, "type": entry.kind, "fields": dict(entry.fields), "for": references.users[key]}
            for key, entry in references.entries.items()
        ],
        "without": references.without,
    }


def text(references: Citations, label: str, source: str) -> str:
    """Return references as a BibTeX file, with the users of each reference in a comment."""
    blocks = [_comment([f"References for {label}, collected by `bench cite`."])]
    blocks += [_comment([f"Based on {source}"])] if source else []
    blocks += [f"{_comment(references.users[key])}\n{entry}" for key, entry in references.entries.items()]
    blocks += [_comment(["Without a reference:", *references.without])] if references.without else []
    return "\n\n".join(blocks)


def _comment(lines: Iterable[str]) -> str:
    """Return lines as BibTeX comments, without @, the only special character outside of entries."""
    return "\n".join(f"% {visible(line).replace('@', '(at)')}" for line in lines)
