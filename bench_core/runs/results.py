"""The results of a run: data classes, and reading and writing the files of a run folder."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal

from pydantic import NonNegativeInt, PositiveInt, ValidationError

from bench_core.errors import StoreError, SuiteError
from bench_core.metric import Scale
from bench_core.optional import REPORTS, installed_module
from bench_core.registry import sections
from bench_core.runs.manifest import FILE as MANIFEST
from bench_core.runs.manifest import write_manifest
from bench_core.runs.provenance import result_digest
from bench_core.runs.run_files import Axes as Axes
from bench_core.runs.run_files import Info, Probes
from bench_core.runs.run_suite import effective_suite, sections_of
from bench_core.runs.shown_results import as_html, as_markdown, as_text
from bench_core.storage.file_formats import Digits, HistoryEntry, Real, parsed
from bench_core.suites import yaml_source as located
from bench_core.suites.axes import AXES
from bench_core.suites.grids import ModelGrid
from bench_core.suites.schema import SuiteFile
from bench_core.terminal import count_of
from plain_files import from_csv, to_csv

if TYPE_CHECKING:
    from block_bootstrap import ReplicateScores

FORMAT = 2  #: version of run folders and of data in reports; missing from files written by bench 0.1
KEY_CHARACTERS = 12  #: length of a training key in the name of its history file
MAX_FILE_BYTES = 2**30  #: limit for a file of a run
MAX_TEXT_LENGTH = 250  # limit in characters for an error message, in bytes for a label
COST_COLUMNS = [
    "stage", "what", "key", "seconds", "cpu_seconds", "peak_mib", "examples", "tokens", "tokens_per_second",
    "ms_per_example", "parameters", "updates", "ms_per_update",
]  # fmt: skip


@dataclass(frozen=True)
class Score:
    """The score of a cell, or the reason why there is none."""

    value: Real | None = None
    reason: str = ""  # if there is no value
    examples: int = 0
    label: str = ""
    unit: str = ""
    digits: Digits = 2
    better: int = 0
    signature: str = ""
    kind: str = ""  # kind of likelihood: exact, bound or estimate; empty if the metric uses no likelihood
    sample: str = ""  # equal for numbers on the same examples, sampled in the same way
    scale: Scale | Literal[""] = ""  # for statistical tests; empty in older runs, which cannot be tested
    units: NonNegativeInt = 0  # number of independent examples or groups; 0 for a whole population
    block: PositiveInt = 1  # number of consecutive examples that depend on each other
    error: Real = 0.0  # standard error from sampling in the model
    bounds: tuple[Real, Real] | None = None  # lowest and highest possible score, if declared by the metric
    ceiling: Real | None = None  # score of the references as represented by tokens, if this is inexact


@dataclass(frozen=True)
class CellResult:
    """The results of one cell."""

    cell: Axes  # task, model, decoder (or None), split, hardware, seed
    status: Literal["done", "failed", "not run"]
    reason: str = ""
    numbers: Mapping[str, Score] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)  # stage -> key
    probes: Probes = field(default_factory=dict)  # name -> finding, including the names of its metrics
    environments: tuple[int, ...] = ()  # indices into the environments of the run


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run, read from its folder; Python prompts and notebooks display its results."""

    folder: Path
    suite: SuiteFile  # with profile and settings applied, grids expanded
    info: Mapping[str, Any]  # run.json: label, profile, environments, tasks etc.
    cells: Sequence[CellResult]
    sections: Mapping[str, Any] = field(default_factory=dict)  # values of plugins, from suite and files
    grids: Mapping[str, ModelGrid] = field(default_factory=dict)

    @cached_property
    def histories(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The evaluations of each training run, by abbreviated key; read on access."""
        try:
            return dict(read_histories(self.folder))
        except (OSError, ValueError) as error:
            raise _unreadable(self.folder, error) from None

    @cached_property
    def draws(self) -> Mapping[str, ReplicateScores]:
        """The bootstrap replicates of each number, by the key of its measure stage; read on access."""
        path = self.folder / "draws.safetensors"
        if not path.exists():
            return {}
        from block_bootstrap import StoredReplicates

        try:
            if not path.is_file():
                raise ValueError(f"{path.name} is not a file")
            return StoredReplicates(path)
        except (OSError, ValueError) as error:
            text = f"{self.folder}: draws.safetensors cannot be read ({error})."
            raise StoreError(f"{text} Run the suite again.") from None

    @cached_property
    def names(self) -> Mapping[str, Collection[Any]]:
        """The distinct names of the cells on each axis, including None for cells without a name."""
        return {axis: {cell.cell.get(axis) for cell in self.cells} for axis in AXES}

    def artifacts(self) -> list[tuple[str, str]]:
        """Return the kind and key of all distinct artifacts of the cells."""
        names = ((name.partition("/")[0], key) for cell in self.cells for name, key in cell.artifacts.items())
        return list(dict.fromkeys(names))

    def named_keys(self) -> set[str]:
        """Return the keys of all artifacts of the run, including abbreviated keys from its costs.

        Tasks that no cell uses appear only in the costs.
        """
        path = self.folder / "costs.csv"
        try:
            costs = {row["key"] for row in from_csv(path.read_bytes().decode())}
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{path}: the costs of the run cannot be read: {error}. Run the suite again.") from None
        return {*costs, *(key for _, key in self.artifacts())}

    def rows(self) -> list[dict[str, Any]]:
        """Return a flat mapping per cell: its axes, status and scores."""
        scores = ({name: number.value for name, number in cell.numbers.items()} for cell in self.cells)
        return [{**cell.cell, "status": cell.status, **row} for cell, row in zip(self.cells, scores, strict=True)]

    @property
    def _title(self) -> str:
        numbers = Counter(cell.status for cell in self.cells)
        counts = ", ".join(f"{count_of(number, 'cell')} {status}" for status, number in numbers.items())
        return f"Run of {self.info.get('label') or self.suite.suite}: {counts or 'no cells'}"

    def __repr__(self) -> str:
        return as_text(self._title, self.rows())

    def _repr_markdown_(self) -> str:
        return as_markdown(self._title, self.rows())

    def _repr_html_(self) -> str:
        """Return the tables of the report as self-contained HTML, or the rows if no plugin writes reports."""
        reports = installed_module(REPORTS, "for_core")
        return reports.run_html(self) if reports else as_html(self._title, self.rows())


def cells_text(cells: Iterable[CellResult]) -> str:
    """Return one JSON line per cell."""
    return "".join(json.dumps(cell_as_json(cell), sort_keys=True) + "\n" for cell in cells)


def cell_as_json(cell: CellResult) -> dict[str, Any]:
    """Return a cell as JSON data; infinite and undefined scores become strings."""
    return {**vars(cell), "numbers": {name: _number_as_json(number) for name, number in cell.numbers.items()}}


def _number_as_json(number: Score) -> dict[str, Any]:
    fields = {**vars(number), "value": as_json(number.value)}
    bounds, ceiling = fields.pop("bounds"), fields.pop("ceiling")
    if bounds is not None:
        fields["bounds"] = [as_json(float(end)) for end in bounds]
    return fields if ceiling is None else {**fields, "ceiling": as_json(ceiling)}


def number_digest(number: Score, draws: ReplicateScores | None) -> str:
    """Return the digest of a number and its bootstrap replicates for the recorded stages."""
    return result_digest(_number_as_json(number), draws)


def finding_digest(finding: Mapping[str, Any]) -> str:
    """Return the digest of the finding of a probe for the recorded stages, without names of the suite."""
    return result_digest({name: value for name, value in finding.items() if name != "measured"})


def as_json(value: Any) -> Any:
    """Return JSON data with infinities and NaN as strings."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def write_costs(path: Path, stages: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> None:
    """Write `costs.csv`, with a line per stage; costs differ between machines."""
    about = ({"stage": kind, "what": label, "key": key[:16], **cost} for kind, label, key, cost in stages)
    rows = ({**row, **_rates(row)} for row in about)
    path.write_text(to_csv(rows, COST_COLUMNS), encoding="utf-8", newline="")


def _rates(cost: Mapping[str, Any]) -> dict[str, float]:
    seconds, rates = cost.get("seconds"), {}
    if seconds and cost.get("tokens"):
        rates["tokens_per_second"] = round(cost["tokens"] / seconds, 1)
    if seconds and cost.get("examples"):
        rates["ms_per_example"] = round(1000 * seconds / cost["examples"], 3)
    if seconds and cost.get("updates"):
        rates["ms_per_update"] = round(1000 * seconds / cost["updates"], 3)  # including evaluations during training
    return rates


def _cell_from_json(line: bytes) -> CellResult:
    """Parse a cell; cells of older runs belong to the only environment of the run."""
    line = _without_intervals(line)
    cell, fields = parsed(CellResult, line), json.loads(line)
    for name in ("reason", "numbers", "artifacts"):
        if name not in fields:
            raise ValueError(f"{name}: Field required")
    return cell if "environments" in fields else replace(cell, environments=(0,))


def _without_intervals(line: bytes) -> bytes:
    """Remove the intervals that version 0.1 stored with numbers from a cell."""
    fields = json.loads(line)
    numbers = fields.get("numbers") if isinstance(fields, dict) and "environments" not in fields else None
    for number in numbers.values() if isinstance(numbers, dict) else ():
        if isinstance(number, dict):
            number.pop("interval", None)
    return json.dumps(fields).encode() if numbers else line


def write_run(out: Path, name: str, fill: Callable[[Path], None]) -> Path:
    """Fill a new run folder, write its manifest unless it has one, and rename it into place; return its path.

    If a run of that name exists, a number is appended. Raises StoreError if the folder is not writable.
    """
    folder = out / f".{name}-{token_hex(4)}"
    try:
        folder.mkdir(parents=True)
        fill(folder)
        return _move_to_free_name(folder, out, name, (folder / MANIFEST).exists())
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror}). Set another folder with --runs.") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move_to_free_name(folder: Path, out: Path, name: str, has_manifest: bool) -> Path:
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        target = out / f"{name}{suffix}"
        if not target.exists():
            if not has_manifest:
                write_manifest(folder, "run", target.name)
            with suppress(OSError):  # another process was faster
                folder.rename(target)
                return target
    raise StoreError(f"{out} has a thousand runs called {name!r}. Set another folder with --runs.")


def read_run(folder: Path) -> Run:
    """Read a run folder; raise SuiteError if it is not a run folder, StoreError if a file is damaged."""
    if not (folder / "cells.jsonl").is_file():
        raise SuiteError(f"{folder} is not a run: it has no cells.jsonl. Pass a folder that `bench run` wrote.")
    try:
        with reading(folder, "cells.jsonl") as content:
            cells = [_cell_from_json(line) for line in content.splitlines()]
        info = _info(folder, cells)
        with reading(folder, "suite.yaml"):
            source = located.read(folder / "suite.yaml")
            suite, grids = effective_suite(source)
        info["label"] = info.get("label") or suite.suite
        others = sections_of(source, grids)
        others |= {name: value for section in sections() for name, value in section.read_texts(folder).items()}
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from None
    return Run(folder, suite, info, cells, others, grids)


def _unreadable(folder: Path, error: Exception) -> StoreError:
    why = " ".join(str(error).split())
    return StoreError(f"{folder}: the run cannot be read ({why[:MAX_TEXT_LENGTH]}). Run the suite again.")


def plain_file(path: Path) -> bytes:
    """Return the content of a file of a run; raise ValueError if it is not a file, or too large."""
    if not path.is_file():
        raise ValueError(f"{path.name} is not a file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_FILE_BYTES:,} bytes")
    return path.read_bytes()


@contextmanager
def reading(folder: Path, name: str) -> Iterator[bytes]:
    """Yield the content of a file; errors in the block become ValueErrors with the name of the file."""
    content = plain_file(folder / name)
    try:
        yield content
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{name}: {error}") from None


def _info(folder: Path, cells: Sequence[CellResult]) -> dict[str, Any]:
    """Return the content of run.json."""
    with reading(folder, "run.json") as content:
        parsed(Info, content)
        info = json.loads(content)
        if len(str(info.get("label", "")).encode()) > MAX_TEXT_LENGTH:
            raise ValueError("the label is too long to be the name of a folder")
        environments = info.get("environments") or [info.get("environment") or {}]
        if any(not 0 <= place < len(environments) for cell in cells for place in cell.environments):
            raise ValueError("a cell refers to an unknown environment")
    return {"tasks": {}, "models": {}, "samples": [], **info, "environments": environments}


def history_files(folder: Path) -> dict[str, Path]:
    """Return the files of training histories by abbreviated key, except histories without keys (old runs)."""
    paths = sorted((folder / "history").glob(f"*-{'?' * KEY_CHARACTERS}.jsonl"))
    return {path.stem[-KEY_CHARACTERS:]: path for path in paths}


def read_histories(folder: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yield the abbreviated key and the evaluations of each training run; raise ValueError for a damaged file."""
    for key, path in history_files(folder).items():
        with reading(folder, f"history/{path.name}") as content:
            yield key, [parsed(HistoryEntry, line).model_dump() for line in content.splitlines()]
