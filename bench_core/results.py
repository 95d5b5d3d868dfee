"""What a run leaves on disk, and how it is read again: a report needs nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from bench_core import located
from bench_core.combinations import ModelGrid, expand, plainly
from bench_core.distributions import Distribution, read_distributions
from bench_core.errors import StoreError, SuiteError
from bench_core.mistakes import Mistakes
from bench_core.published import Published
from bench_core.schema import SuiteFile

SHORT = 12  #: letters of a training's key in the name of its history


@dataclass(frozen=True)
class Number:
    """A metric of one cell: its value, or why there is none."""

    value: float | None = None
    reason: str = ""  # why there is no value
    examples: int = 0
    unit: str = ""
    digits: int = 2
    better: int = 0
    signature: str = ""
    kind: str = ""  # of the likelihood behind it: exact, bound, estimate; empty where there is none
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class CellResult:
    """What came of one cell."""

    cell: Mapping[str, Any]  # task, model, decoder (or None), split, hardware, seed
    status: str  # done, failed, not run
    reason: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)  # stage -> key
    certificates: Mapping[str, Any] = field(default_factory=dict)  # name -> what it found, and who measured it
    environments: tuple[int, ...] = ()  # those of the run in which it was computed, by their places


@dataclass(frozen=True)
class Run:
    """A run as its folder tells it."""

    folder: Path
    suite: SuiteFile  # effective: profile and settings applied, grids expanded
    info: Mapping[str, Any]  # label, profile, environments, tasks and what they are made of
    cells: Sequence[CellResult]
    published: Mapping[str, Published]
    distributions: Sequence[Distribution] = ()  # of the metrics that figures draw by example
    histories: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)  # training -> its evaluations
    grids: Mapping[str, ModelGrid] = field(default_factory=dict)  # of the suite, by name

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat mapping a cell: its axes, status and metric values."""
        return [
            {**one.cell, "status": one.status, **{name: number.value for name, number in one.numbers.items()}}
            for one in self.cells
        ]


def write_cells(path: Path, cells: Sequence[CellResult]) -> None:
    """Write one JSON line a cell."""
    path.write_text("".join(json.dumps(_cell_as_json(cell), sort_keys=True) + "\n" for cell in cells))


def _cell_as_json(one: CellResult) -> dict[str, Any]:
    return {**vars(one), "numbers": {name: _number_as_json(number) for name, number in one.numbers.items()}}


def _number_as_json(number: Number) -> dict[str, Any]:
    interval = [_finite(end) for end in number.interval] if number.interval else None
    return {**vars(number), "value": _finite(number.value), "interval": interval}


def _finite(value: float | None) -> float | str | None:
    """Return a number that JSON can hold; infinities and NaN become words."""
    return value if value is None or abs(value) < float("inf") else str(value)


def _cell_from_json(data: Mapping[str, Any]) -> CellResult:
    numbers = {name: _number(entry) for name, entry in data["numbers"].items()}
    return CellResult(**{**data, "numbers": numbers, "environments": tuple(data.get("environments", (0,)))})


def _number(entry: Mapping[str, Any]) -> Number:
    value, interval = entry["value"], entry["interval"]
    return Number(
        **{
            **entry,
            "value": None if value is None else float(value),
            "interval": tuple(map(float, interval)) if interval else None,
        }
    )


def write_run(out: Path, name: str, fill: Callable[[Path], None]) -> Path:
    """Have a new folder filled, and put it among the runs as a whole; return it.

    Where there is a run of that name, its own ends in a number. Raises StoreError where nothing can be written.
    """
    folder = out / f".{name}-{token_hex(4)}"
    try:
        folder.mkdir(parents=True)
        fill(folder)
        return _named(folder, out, name)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror}). Name another folder by --runs.") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _named(folder: Path, out: Path, name: str) -> Path:
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        target = out / f"{name}{suffix}"
        if not target.exists():
            with suppress(OSError):  # another was faster
                folder.rename(target)
                return target
    raise StoreError(f"{out} holds a thousand runs called {name!r}. Name another folder by --runs.")


def read_run(folder: Path) -> Run:
    """Read a run folder; raise SuiteError if it is none, StoreError if a file of it is damaged."""
    if not (folder / "cells.jsonl").is_file():
        raise SuiteError(f"{folder} is not a run: it has no cells.jsonl. Give a folder that `bench run` wrote.")
    try:
        cells = [_cell_from_json(json.loads(line)) for line in (folder / "cells.jsonl").read_text().splitlines()]
        info = json.loads((folder / "run.json").read_text())
        info.setdefault("environments", [info.get("environment") or {}])  # runs of old have but one
        published = json.loads((folder / "published.json").read_text())
        suite, grids = effective_suite(located.read(folder / "suite.yaml"))
        tables = {name: Published.model_validate(table) for name, table in published.items()}
        distributions = read_distributions(folder / "distributions.jsonl")
        drawn = any(figure.kind == "line" for figure in suite.figures)
        histories = dict(_histories(folder)) if drawn else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{folder}: the run cannot be read ({error}). Run the suite again.") from None
    return Run(folder, suite, info, cells, tables, distributions, histories, grids)


def effective_suite(source: located.Located) -> tuple[SuiteFile, dict[str, ModelGrid]]:
    """Return a suite whose grids are expanded as they were when it ran."""
    mistakes = Mistakes(source)
    grids = expand(source, mistakes)
    if mistakes.found:
        raise mistakes.error()
    return plainly(SuiteFile.model_validate(source.data), grids), grids


def history_files(folder: Path) -> dict[str, Path]:
    """Return the files of a run that tell how trainings went, by their keys cut short.

    Runs of old have no keys in their names.
    """
    return {path.stem[-SHORT:]: path for path in sorted((folder / "history").glob(f"*-{'?' * SHORT}.jsonl"))}


def _histories(folder: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yield the key of each training, cut short, and its evaluations."""
    for key, path in history_files(folder).items():
        yield key, [json.loads(line) for line in path.read_text().splitlines()]
