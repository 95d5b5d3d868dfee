"""The request of `bench score` (files, names, metrics, options), and the suite that it becomes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench_core import SuiteError
from bench_recorded.reading.pieces import Pieces

PACKAGE = "bench-recorded"  #: the distribution that provides the parts
TASK, DECODER, TABLE = "test", "recorded", "scores"  #: names in the suite


@dataclass(frozen=True)
class ScoreRequest:
    """Output files to score, and options."""

    references: Sequence[Path]
    outputs: Sequence[Path]
    names: Sequence[str]  # one per output file
    metrics: Mapping[str, Mapping[str, Any]]  # settings by column name
    source: Path | None = None
    format: str = "auto"
    match: str = "auto"
    test: Literal["bootstrap", "permutation"] = "bootstrap"
    language: str | None = None
    tokenized: bool = False
    pieces: Sequence[Pieces] = ()  # one for all output files, or one per file
    reference_pieces: Pieces | None = None
    thinking: str = "refuse"

    def suite(self) -> dict[str, Any]:
        """Return the suite that scores the files; models are called `system-1` etc., as systems may have any name."""
        systems = self.systems
        task = {
            "name": f"{PACKAGE}/references", "references": [*map(_absolute, self.references)], "lang": self.language,
            "tokens": self.tokenized, "pieces": self.reference_pieces,
            "sources": _absolute(self.source) if self.source else None,
        }  # fmt: skip
        table: dict[str, Any] = {
            "id": TABLE, "rows": ["model"], "values": [*self.metrics], "spread": "interval", "test": self.test,
        }  # fmt: skip
        model = {
            "name": f"{PACKAGE}/recorded", "format": self.format, "match": self.match, "thinking": self.thinking,
        }  # fmt: skip
        compared = {"baseline": next(iter(systems)), "differences": True} if len(systems) > 1 else {}
        return {
            "suite": "score",
            "title": "Scores",
            "labels": {system: name for system, name in zip(systems, self.names, strict=True) if name.strip()},
            "tasks": {TASK: task},
            "models": {
                system: {**model, "outputs": _absolute(path), "pieces": pieces}
                for (system, path), pieces in zip(systems.items(), self.all_pieces, strict=True)
            },
            "decoders": {DECODER: {"name": f"{PACKAGE}/as-recorded"}},
            "metrics": {name: dict(settings) for name, settings in self.metrics.items()},
            "tables": [{**table, **compared}],
        }

    @property
    def all_pieces(self) -> Sequence[Pieces | None]:
        """The pieces of each file; raises SuiteError unless `pieces` is empty or has one entry, or one per file."""
        number, pieces = len(self.outputs), [*self.pieces]
        if len(pieces) not in (0, 1, number):
            raise SuiteError(f"--pieces is given {len(pieces)} times for {number} files. Give it once or per file.")
        return pieces * (1 if len(pieces) == number else number) if pieces else [None] * number

    @property
    def systems(self) -> Mapping[str, Path]:
        """The output files by model name in the suite."""
        return {f"system-{place}": path for place, path in enumerate(self.outputs, 1)}


def parse_metrics(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse `NAME` or `NAME:KEY=VALUE,KEY=VALUE` to settings by column name; raise SuiteError for a syntax error."""
    metrics: dict[str, dict[str, Any]] = {}
    for word in words:
        name, _, settings = word.partition(":")
        pairs = [pair.partition("=") for pair in settings.split(",") if settings]
        if any(not key or not sign for key, sign, _ in pairs):
            raise SuiteError(f"--metric {word}: write settings as NAME:KEY=VALUE,KEY=VALUE.")
        same = sum(each["name"] == name for each in metrics.values())
        column = f"{name}-{same + 1}" if same else name
        metrics[column] = {"name": name, **{key: _value(text) for key, _, text in pairs}}
    return metrics


def file_names(outputs: Sequence[Path], chosen: Sequence[str]) -> list[str]:
    """Return the chosen names of systems; by default, their file names, or their paths if file names repeat."""
    if chosen and len(chosen) != len(outputs):
        raise SuiteError(f"--name is given {len(chosen)} times for {len(outputs)} files. Give one name per file.")
    short = [path.name for path in outputs]
    names = [*chosen] if chosen else short if len({*short}) == len(short) else [*map(str, outputs)]
    if len({*names}) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise SuiteError(f"two systems are called {duplicate!r}. Name each with --name, in the order of the files.")
    return names


def _absolute(path: Path) -> str:
    return str(path.expanduser().absolute())


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
