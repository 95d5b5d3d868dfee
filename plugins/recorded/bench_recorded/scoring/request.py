"""What `bench score` is asked: files, names, metrics, and how they are compared; and the suite that this makes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench_core import SuiteError
from bench_recorded.reading.pieces import Pieces

OWN = "bench-recorded"  #: the distribution of the parts here
TASK, DECODER, TABLE = "test", "recorded", "scores"  #: names in the suite


@dataclass(frozen=True)
class Scoring:
    """Files of outputs to score."""

    references: Sequence[Path]
    outputs: Sequence[Path]
    names: Sequence[str]  # of the systems
    metrics: Mapping[str, Mapping[str, Any]]  # settings by the name of a column
    source: Path | None = None
    format: str = "auto"
    match: str = "auto"
    test: Literal["bootstrap", "permutation"] = "bootstrap"
    language: str | None = None
    tokenized: bool = False
    pieces: Sequence[Pieces] = ()  # of all files of outputs, or of each
    reference_pieces: Pieces | None = None
    thinking: str = "refuse"

    def suite(self) -> dict[str, Any]:
        """Return the suite that scores them; systems are called by their place, as names may be of any kind."""
        systems = self.systems
        task = {
            "name": f"{OWN}/references", "references": [*map(_absolute, self.references)], "lang": self.language,
            "tokens": self.tokenized, "pieces": self.reference_pieces,
            "sources": _absolute(self.source) if self.source else None,
        }  # fmt: skip
        table: dict[str, Any] = {
            "id": TABLE, "rows": ["model"], "values": [*self.metrics], "spread": "interval", "test": self.test,
        }  # fmt: skip
        model = {
            "name": f"{OWN}/recorded", "format": self.format, "match": self.match, "thinking": self.thinking,
        }  # fmt: skip
        compared = {"baseline": next(iter(systems)), "differences": True} if len(systems) > 1 else {}
        return {
            "suite": "score",
            "title": "Scores",
            "labels": {one: name for one, name in zip(systems, self.names, strict=True) if name.strip()},
            "tasks": {TASK: task},
            "models": {
                one: {**model, "outputs": _absolute(path), "pieces": pieces}
                for (one, path), pieces in zip(systems.items(), self.all_pieces, strict=True)
            },
            "decoders": {DECODER: {"name": f"{OWN}/as-recorded"}},
            "metrics": {name: dict(settings) for name, settings in self.metrics.items()},
            "tables": [{**table, **compared}],
        }

    @property
    def all_pieces(self) -> Sequence[Pieces | None]:
        """The pieces of each file; raises SuiteError unless they are given for none, for all or for each."""
        number, given = len(self.outputs), [*self.pieces]
        if len(given) not in (0, 1, number):
            raise SuiteError(f"{len(given)} times --pieces for {number} files. Give it once, or for each in order.")
        return given * (1 if len(given) == number else number) if given else [None] * number

    @property
    def systems(self) -> Mapping[str, Path]:
        """The files by the names of systems in the suite."""
        return {f"system-{place}": path for place, path in enumerate(self.outputs, 1)}


def metrics_of(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return metrics with their settings from `NAME` or `NAME:KEY=VALUE,KEY=VALUE`, by different names."""
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        name, _, settings = word.partition(":")
        pairs = [pair.partition("=") for pair in settings.split(",") if settings]
        if any(not key or not sign for key, sign, _ in pairs):
            raise SuiteError(f"--metric {word}: settings are written as NAME:KEY=VALUE,KEY=VALUE.")
        alike = sum(one["name"] == name for one in found.values())
        called = f"{name}-{alike + 1}" if alike else name
        found[called] = {"name": name, **{key: _value(one) for key, _, one in pairs}}
    return found


def names_of(outputs: Sequence[Path], given: Sequence[str]) -> list[str]:
    """Return the names of systems: those given, else the names of files, with their folders where these are alike."""
    if given and len(given) != len(outputs):
        raise SuiteError(f"{len(given)} names are given by --name for {len(outputs)} files. Give one for each.")
    short = [path.name for path in outputs]
    names = [*given] if given else short if len({*short}) == len(short) else [*map(str, outputs)]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SuiteError(f"two systems are called {twice!r}. Name each by --name, in the order of the files.")
    return names


def _absolute(path: Path) -> str:
    return str(path.expanduser().absolute())


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
