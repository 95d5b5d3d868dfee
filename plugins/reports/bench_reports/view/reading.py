"""Read runs and reports into entries of the page; unreadable ones become entries with the reason."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from bench_core.errors import BenchError
from bench_core.runs.manifest import Manifest
from bench_core.runs.results import Axes, CellResult, Score, plain_file, read_histories, read_run
from bench_core.storage.file_formats import Open, parsed
from bench_reports.content.conditions import corpus_text
from bench_reports.content.environments import ALWAYS
from bench_reports.content.outputs import shortened
from bench_reports.content.page import facts, head, title
from bench_reports.content.sorting import ordered
from bench_reports.view.curves import Curve, curves
from bench_reports.view.finding import manifest_of
from bench_reports.view.linking import ReportFiles
from bench_reports.view.published import PublishedNumber, published_numbers

DATE = re.compile(r"-(\d{8}-\d{6})(?:-\d+)?$")  # in the name of a run folder
READ = ("cells.jsonl", "run.json", "suite.yaml", "published.json", "draws.safetensors", "costs.csv")
COMMIT = 10  # characters of a commit hash
MAX_PROBLEM_CHARACTERS = 300  # characters of a problem


@dataclass(frozen=True)
class PageEntry:
    """A run, or a report without its run, as listed on the page."""

    folder: Path  # relative to the viewed folder
    kind: Literal["run", "report"]
    title: str
    short: str  # name of the folder
    suite: str = ""
    profile: str = ""
    date: str = ""  # start of the run, such as `2026-11-23 08:51`; empty if not in the folder's name
    version: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()  # limits of comparability
    cells: Sequence[CellResult] = ()  # in suite order
    metrics: Sequence[str] = ()  # in suite order
    samples: Sequence[Mapping[str, Any]] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)  # by key prefix of the training run
    published: Sequence[PublishedNumber] = ()
    reports: Sequence[ReportFiles] = ()
    problem: str = ""  # why it cannot be read

    @property
    def name(self) -> str:
        """The path of the folder, relative to the viewed folder."""
        return self.folder.as_posix()

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of cells by status."""
        return Counter(cell.status for cell in self.cells)

    @property
    def reasons(self) -> Mapping[tuple[str, str], int]:
        """The number of cells that failed or did not run, by status and reason, most frequent first."""
        counts = Counter((cell.status, cell.reason) for cell in self.cells if cell.status != "done")
        return dict(counts.most_common())


class _Cell(Open):
    """A cell of `results.json`."""

    cell: Axes
    status: Literal["done", "failed", "not run"]
    reason: str = ""
    numbers: dict[str, Score] = {}


class _Task(Open):
    corpus: str | dict[str, str] | None = None


class _Results(Open):
    """The data of `results.json` that the page uses, in this version and in 0.1."""

    suite: str | None = None
    label: str = ""
    profile: str | None = None
    title: str | None = None
    source: str | None = None
    environments: list[dict[str, Any]] = []
    tasks: dict[str, _Task] = {}
    cells: list[_Cell] = []


def read_entry(root: Path, folder: Path, reports: Sequence[ReportFiles] = ()) -> PageEntry:
    """Return the entry of a run with its reports; raise any exception if it cannot be read."""
    place = root / folder
    name = place.resolve().name
    _stay_inside(root, place)
    run = read_run(place)
    info = run.info
    trainings, notes = dict[str, Curve](), list[str]()
    try:
        trainings = curves(read_histories(run.folder))
    except (OSError, ValueError) as error:
        notes = [f"Training curves cannot be read: {_short(error)}."]
    return PageEntry(
        folder, "run", title(run), name, suite=run.suite.suite, profile=str(info.get("profile") or ""),
        date=_date(name), version=_version(manifest_of(place), info["environments"]), reports=reports,
        facts=head(run) | facts(run), notes=notes, cells=ordered(run), samples=info["samples"], curves=trainings,
        published=published_numbers(run), metrics=metrics_of([*run.suite.metrics], run.cells),
    )  # fmt: skip


def read_report(root: Path, report: ReportFiles) -> PageEntry:
    """Return the entry of a report without its run, with the cells of its `results.json`; raise if it is damaged."""
    place = root / report.folder
    name = place.resolve().name
    _stay_inside(root, place)
    results = parsed(_Results, plain_file(place / "results.json"))
    corpora = [f"{corpus_text(task.corpus)} ({name})" for name, task in results.tasks.items() if task.corpus]
    computed = "; ".join(
        ", ".join(f"{key} {environment[key]}" for key in ALWAYS if key in environment)
        for environment in results.environments
    )
    facts = {
        "Source": results.source, "Suite": results.label or results.suite or "", "Computed with": computed,
        "Corpus": ", ".join(corpora),
    }  # fmt: skip
    cells = [CellResult(cell.cell, cell.status, cell.reason, cell.numbers) for cell in results.cells]
    return PageEntry(
        report.folder, "report", results.title or results.suite or name, name,
        suite=results.suite or results.label, profile=results.profile or "", date=_date(report.run),
        version=_version(manifest_of(place), results.environments), reports=[report],
        facts={name: text for name, text in facts.items() if text}, cells=cells, metrics=metrics_of([], cells),
        notes=["The run is not in this folder; only the report has outputs, training curves and published numbers."],
    )  # fmt: skip


def _stay_inside(root: Path, place: Path) -> None:
    """Raise ValueError if a file to read lies outside the viewed folder."""
    inside = root.resolve()
    for path in [*(place / name for name in (*READ, "results.json")), *(place / "history").glob("*")]:
        if not path.resolve().is_relative_to(inside):
            raise ValueError(f"{path.relative_to(place).as_posix()} is a link to a file outside the viewed folder")


def metrics_of(order: Sequence[str], cells: Iterable[CellResult]) -> list[str]:
    """Return the metrics of cells, beginning with the metrics in `order`."""
    metrics = dict.fromkeys(name for cell in cells for name in cell.numbers)
    return [name for name in dict.fromkeys([*order, *metrics]) if name in metrics]


def damaged_entry(
    root: Path, folder: Path, kind: Literal["run", "report"], reports: Sequence[ReportFiles], error: Exception
) -> PageEntry:
    """Return the entry of an unreadable run or report, with the reason."""
    name = (root / folder).resolve().name
    return PageEntry(
        folder, kind, name, name, date=_date(name), reports=reports, problem=_problem(error, root, folder)
    )


def _problem(error: Exception, root: Path, folder: Path) -> str:
    """Return the message of an error, without absolute paths."""
    expected = isinstance(error, BenchError | OSError | ValueError) and str(error)
    text = str(error) if expected else f"{type(error).__name__}: {error}"
    for path in (root.resolve() / folder, root / folder):
        text = text.replace(f"{path}: ", "").replace(str(path), folder.as_posix())
    for path in (root.resolve(), root):
        text = text.replace(f"{path}/", "") if path.is_absolute() else text
    return _short(text)


def _short(error: object) -> str:
    return shortened(" ".join(str(error).split()), MAX_PROBLEM_CHARACTERS)


def _date(name: str) -> str:
    match = DATE.search(name)
    try:
        return f"{datetime.strptime(match[1], '%Y%m%d-%H%M%S'):%Y-%m-%d %H:%M}" if match else ""
    except ValueError:
        return ""


def _version(manifest: Manifest | None, environments: Iterable[Mapping[str, Any]]) -> str:
    """Return version and commit, such as `0.2.0, commit 8c3e5682b3, with changes`, or the environments' versions."""
    if manifest is None:
        return ", ".join(dict.fromkeys(str(known["bench"]) for known in environments if known.get("bench")))
    commit = manifest.commit
    words = [manifest.bench, *([f"commit {commit.id[:COMMIT]}"] if commit else [])]
    return ", ".join([*words, *(["with changes"] if commit and not commit.clean else [])])
