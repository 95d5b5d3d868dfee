"""Reads the runs and reports that were found; what cannot be read is an entry with the reason."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from bench_core.errors import BenchError
from bench_core.runs.manifest import Manifest
from bench_core.runs.results import Axes, CellResult, Number, plain_file, read_histories, read_run
from bench_core.storage.file_formats import Open, parsed
from bench_reports.content.conditions import corpus_text
from bench_reports.content.environments import ALWAYS
from bench_reports.content.outputs import shortened
from bench_reports.content.page import comparability, facts, title
from bench_reports.content.sorting import ordered
from bench_reports.view.curves import Curve, curves
from bench_reports.view.finding import manifest_of
from bench_reports.view.linking import Report
from bench_reports.view.published import PublishedNumber, published_numbers

DATE = re.compile(r"-(\d{8}-\d{6})(?:-\d+)?$")  # of a run, in the name of its folder
READ = ("cells.jsonl", "run.json", "suite.yaml", "published.json", "draws.safetensors", "costs.csv")
COMMIT = 10  # letters of a commit
LONGEST = 300  # characters of what is wrong with a run


@dataclass(frozen=True)
class Entry:
    """A run, or a report whose run is not here, as the page lists it."""

    folder: Path  # below the folder that is viewed
    kind: Literal["run", "report"]
    title: str
    short: str  # the name of its folder
    suite: str = ""
    profile: str = ""
    date: str = ""  # when the run began, such as `2026-11-23 08:51`; empty if its name does not tell
    version: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()  # what limits a comparison with others
    cells: Sequence[CellResult] = ()  # in the order of the suite
    metrics: Sequence[str] = ()  # likewise
    samples: Sequence[Mapping[str, Any]] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)  # by the beginning of the key of a training
    published: Sequence[PublishedNumber] = ()
    reports: Sequence[Report] = ()
    problem: str = ""  # why it cannot be read

    @property
    def name(self) -> str:
        """The path of its folder below the one that is viewed."""
        return self.folder.as_posix()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many cells there are of each status."""
        return Counter(one.status for one in self.cells)

    @property
    def reasons(self) -> Mapping[tuple[str, str], int]:
        """How many cells failed or did not run for each reason, by status and reason; the most frequent first."""
        found = Counter((one.status, one.reason) for one in self.cells if one.status != "done")
        return dict(found.most_common())


class _Cell(Open):
    """A cell of `results.json`."""

    cell: Axes
    status: Literal["done", "failed", "not run"]
    reason: str = ""
    numbers: dict[str, Number] = {}


class _Task(Open):
    corpus: str | dict[str, str] | None = None


class _Results(Open):
    """What the page takes from `results.json`, of this version and of 0.1."""

    suite: str | None = None
    label: str = ""
    profile: str | None = None
    title: str | None = None
    source: str | None = None
    environments: list[dict[str, Any]] = []
    tasks: dict[str, _Task] = {}
    cells: list[_Cell] = []


def read_entry(root: Path, folder: Path, reports: Sequence[Report] = ()) -> Entry:
    """Return a run with its reports; raise an exception, of any kind, if it cannot be read."""
    place = root / folder
    name = place.resolve().name
    _stay_inside(root, place)
    run = read_run(place)
    info = run.info
    notes = comparability(run)
    try:
        trainings = curves(read_histories(run.folder))
    except (OSError, ValueError) as error:
        trainings, notes = {}, [*notes, f"There are no training curves: {_short(error)}."]
    return Entry(
        folder, "run", title(run), name, suite=run.suite.suite, profile=str(info.get("profile") or ""),
        date=_date(name), version=_version(manifest_of(place), info["environments"]), reports=reports,
        facts=facts(run), notes=notes, cells=ordered(run), samples=info["samples"], curves=trainings,
        published=published_numbers(run), metrics=measured([*run.suite.metrics], run.cells),
    )  # fmt: skip


def read_report(root: Path, report: Report) -> Entry:
    """Return a report whose run is not here, with the cells in its `results.json`; raise an exception if damaged."""
    place = root / report.folder
    name = place.resolve().name
    _stay_inside(root, place)
    found = parsed(_Results, plain_file(place / "results.json"))
    corpora = [f"{corpus_text(task.corpus)} ({name})" for name, task in found.tasks.items() if task.corpus]
    computed = "; ".join(", ".join(f"{key} {one[key]}" for key in ALWAYS if key in one) for one in found.environments)
    known = {
        "Source": found.source, "Suite": found.label or found.suite or "", "Computed with": computed,
        "Corpus": ", ".join(corpora),
    }  # fmt: skip
    cells = [CellResult(one.cell, one.status, one.reason, one.numbers) for one in found.cells]
    return Entry(
        report.folder, "report", found.title or found.suite or name, name,
        suite=found.suite or found.label, profile=found.profile or "", date=_date(report.run),
        version=_version(manifest_of(place), found.environments), reports=[report],
        facts={name: text for name, text in known.items() if text}, cells=cells, metrics=measured([], cells),
        notes=["Its run is not here: outputs, training curves and published numbers are in the report alone."],
    )  # fmt: skip


def _stay_inside(root: Path, place: Path) -> None:
    """Raise ValueError if a file that is read lies outside of the folder that is viewed."""
    inside = root.resolve()
    for path in [*(place / name for name in (*READ, "results.json")), *(place / "history").glob("*")]:
        if not path.resolve().is_relative_to(inside):
            raise ValueError(f"{path.relative_to(place).as_posix()} is a link that leads out of the folder")


def measured(order: Sequence[str], cells: Iterable[CellResult]) -> list[str]:
    """Return the metrics of cells: those in `order` first."""
    found = dict.fromkeys(name for one in cells for name in one.numbers)
    return [name for name in dict.fromkeys([*order, *found]) if name in found]


def damaged(
    root: Path, folder: Path, kind: Literal["run", "report"], reports: Sequence[Report], error: Exception
) -> Entry:
    """Return the entry of something that cannot be read, with the reason."""
    name = (root / folder).resolve().name
    return Entry(folder, kind, name, name, date=_date(name), reports=reports, problem=_problem(error, root, folder))


def _problem(error: Exception, root: Path, folder: Path) -> str:
    """Return why something cannot be read, without paths of this machine."""
    known = isinstance(error, BenchError | OSError | ValueError) and str(error)
    text = str(error) if known else f"{type(error).__name__}: {error}"
    for path in (root.resolve() / folder, root / folder):
        text = text.replace(f"{path}: ", "").replace(str(path), folder.as_posix())
    for path in (root.resolve(), root):
        text = text.replace(f"{path}/", "") if path.is_absolute() else text
    return _short(text)


def _short(error: object) -> str:
    return shortened(" ".join(str(error).split()), LONGEST)


def _date(name: str) -> str:
    found = DATE.search(name)
    try:
        return f"{datetime.strptime(found[1], '%Y%m%d-%H%M%S'):%Y-%m-%d %H:%M}" if found else ""
    except ValueError:
        return ""


def _version(manifest: Manifest | None, environments: Iterable[Mapping[str, Any]]) -> str:
    """Return version and commit, such as `0.2.0, commit 8c3e5682b3, with changes`; else those that cells tell."""
    if manifest is None:
        return ", ".join(dict.fromkeys(str(one["bench"]) for one in environments if one.get("bench")))
    commit = manifest.commit
    words = [manifest.bench, *([f"commit {commit.id[:COMMIT]}"] if commit else [])]
    return ", ".join([*words, *(["with changes"] if commit and not commit.clean else [])])
