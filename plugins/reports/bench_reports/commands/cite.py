"""Print BibTeX of all that a run or a suite uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json

if TYPE_CHECKING:
    from bench_core.config import Config
    from bench_core.registry import PartKind
    from bench_reports.citations import References


@click.command()
@click.argument("run", metavar="RUN|SUITE", type=click.Path(path_type=Path))
@click.option("--profile", help="A profile of the suite.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a value of the suite.")
@options.as_json
def command(run: Path, profile: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Print BibTeX of every part, corpus and metric that RUN used, or that a SUITE file names."""
    from bench_core.errors import SuiteError

    if run.is_dir() and (profile or settings):
        raise SuiteError(f"{run} is a run, whose profile and settings are what they were. Leave the options out.")
    label, source, parts = _of_run(run) if run.is_dir() else _of_suite(run, profile, settings)
    found = gathered(parts)
    say(to_json(plain(found), 1) if as_json else text(found, label, source))


Named = tuple["PartKind", str, str, "Config | None"]  # kind, the suite's name, the part's, and its settings


def _of_suite(path: Path, profile: str | None, settings: Iterable[str]) -> tuple[str, str, list[Named]]:
    """Return label, source and parts of a suite file; raise SuiteError with every mistake in it."""
    from bench_core.suites.load import load

    suite = load(path, profile, [*settings])
    sections: Mapping[PartKind, Mapping[str, Any]] = {
        "task": suite.tasks,
        "model": {name: entry.config for name, entry in suite.models.items()},
        "decoder": suite.decoders,
        "metric": suite.metrics,
        "probe": suite.probes,
    }
    named: list[Named] = [
        (kind, suite.origins.get(name, name) if kind == "model" else name, config.name, config)
        for kind, section in sections.items()
        for name, config in section.items()
    ]
    others = ((name, one.config) for name, entry in suite.models.items() for one in entry.by_task.values())
    named += (("model", suite.origins.get(name, name), config.name, config) for name, config in others)
    return suite.label, suite.source, named


def _of_run(folder: Path) -> tuple[str, str, list[Named]]:
    """Return label, source and parts of a run; of those that are not installed here, only the names."""
    from bench_core.config import DecoderConfig, MetricConfig, ModelConfig, TaskConfig
    from bench_core.runs.results import read_run
    from bench_core.suites import yaml_source as located
    from bench_core.suites.grids import expand, origins
    from bench_core.suites.parts import Parts
    from bench_core.suites.problems import Mistakes

    run = read_run(folder)
    source = located.read(folder / "suite.yaml")
    mistakes = Mistakes(source)
    grids = origins(expand(source, mistakes))
    parts = Parts(source.data, mistakes, grids)
    models = parts.models()
    sections: Mapping[PartKind, Mapping[str, Any]] = {
        "task": parts.configs("task", TaskConfig),
        "model": parts.configs("model", ModelConfig),
        "decoder": parts.configs("decoder", DecoderConfig),
        "metric": parts.configs("metric", MetricConfig),
        "probe": parts.probes(models),
    }
    named: list[Named] = []
    for kind, section in sections.items():
        given: Mapping[str, Any] = source.data.get(f"{kind}s") or {}
        for name in dict.fromkeys([*given, *section]):
            config = section.get(name)
            part = config.name if config else str(given[name].get("name"))
            named.append((kind, grids.get(name, name) if kind == "model" else name, part, config))
    return str(run.info["label"]), str(run.info.get("source") or run.suite.source), named


def gathered(parts: Iterable[Named]) -> References:
    """Return the references of parts and of the corpora that they read, those of tasks first."""
    from bench_core.registry import part
    from bench_reports.citations import References, of_core, of_corpus, of_part

    found = References()
    found.add("bench", [of_core()])
    for kind, name, of, config in parts:
        called = f"{kind} {name}" if name == of else f"{kind} {name} ({of})"
        if config is None:
            found.without.append(f"{called}: no such part is installed here, or only another version of it")
            continue
        settings = config.model_dump(mode="json")
        distribution = part(kind, of).distribution
        references = of_part(type(config), settings)
        found.add(called if references else f"{called}: {distribution} names none", references)
        for corpus in _corpora(settings) if kind == "task" else ():
            known = of_corpus(corpus)
            found.add(f"corpus {corpus}" if known else f"corpus {corpus} of task {name}: none is known", known)
    found.without = list(dict.fromkeys(found.without))
    return found


def _corpora(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the corpora that a task reads, as the settings of tasks give them."""
    corpus = settings.get("corpus")
    if isinstance(corpus, Mapping):
        yield str(corpus.get("name") or "of own files")
    elif isinstance(corpus, str):
        yield corpus


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
    from bench_core.terminal import visible

    return "\n".join(f"% {visible(line).replace('@', '(at)')}" for line in lines)
