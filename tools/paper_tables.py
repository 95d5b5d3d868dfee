"""The numbers and verdicts on pages, written from the committed reports.

A page marks where they stand; `make papers` writes what is between the marks:

    <!-- table: strlm/table-8-small/table-8 -->   the table `table-8` of reports/strlm/table-8-small
    <!-- claims: strlm -->                        the verdicts of all reports in reports/strlm
    <!-- reports: strlm -->                       the suites of a paper with their reports, commits, seeds, CPU hours
    <!-- end -->

What has no report is "not run yet", beside the CPU hours that the README of its suites states in a column so named.
A report without a manifest, or with a file that does not fit it, is refused.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any

from projects import ROOT

from bench_core.errors import BenchError, StoreError
from bench_core.runs.manifest import Manifest, problems, read_manifest
from bench_core.suites.yaml_source import read
from bench_core.terminal import counted
from bench_reports.content.digits import NORMAL, worth
from bench_reports.content.numbers import printed, rounded, signed
from bench_reports.language.published import Value
from bench_reports.render.markdown import markdown

OPENING = re.compile(r"<!-- (table|claims|reports): (\S+) -->")
END = "<!-- end -->"
COST = "CPU hours"  # the column in the README of a paper's suites
HOURS = re.compile(r"(?:< |about )?[\d.,]*\d")
FULL = (None, "paper")  # profiles under which a suite is what its paper did
DECIDED = ("holds", "fails")
LEAST = 1e-6  # p-values below it are no measurements
DIGITS = 2  # at most, of numbers whose metric is unknown

Record = Mapping[str, Any]


class PageError(Exception):
    """A page that cannot be written, by its line."""


@dataclass(frozen=True)
class Report:
    """A committed report."""

    folder: Path
    manifest: Manifest
    results: Record
    cpu_hours: float  # of all stages, including those that other suites share

    @property
    def trainings(self) -> str:
        """How many seeds its cells have; `none` where it has data alone."""
        return str(len({one["cell"]["seed"] for one in self.results["cells"]}) or "none")

    @property
    def commit(self) -> str:
        """The commit that wrote it, or the version where there is no repository."""
        known = self.manifest.commit
        return f"`{known.id[:7]}`{'' if known.clean else ' (with changes)'}" if known else self.manifest.bench


@cache
def report_in(folder: Path) -> Report:
    """Read a report; raise StoreError where its manifest is missing or does not fit."""
    manifest = read_manifest(folder)
    if wrong := [one.text for one in problems(folder) if one.wrong]:
        raise StoreError(wrong[0])
    with (folder / "costs.csv").open(encoding="utf-8", newline="") as file:
        seconds = sum(float(one["cpu_seconds"] or 0) for one in csv.DictReader(file))
    return Report(folder, manifest, json.loads((folder / "results.json").read_text("utf-8")), seconds / 3600)


@dataclass(frozen=True)
class Place:
    """A page, in a repository with suites and reports."""

    root: Path
    page: Path

    def link(self, report: Report) -> str:
        """Return a link from the page to a report."""
        name = report.folder.relative_to(self.root / "reports").as_posix()
        return f"[{name}]({Path(os.path.relpath(report.folder, self.page.parent)).as_posix()}/report.md)"

    def suites(self, paper: str) -> list[Path]:
        """Return the suites of a paper, tables by their numbers."""
        found = [*(self.root / "suites" / paper).glob("*.yaml")]
        if not found:
            raise PageError(f"suites/{paper} has no suites.")
        return sorted(found, key=lambda path: [part.zfill(3) for part in re.split(r"(\d+)", path.stem)])

    def reports(self, suite: Path) -> list[Report]:
        """Return the reports of a suite, by profile."""
        folder = self.root / "reports" / suite.parent.name
        return [report_in(path) for name in profiles(suite) if (path := written(folder / name)).is_dir()]

    def cost(self, suite: Path, profile: str | None = "small") -> str:
        """Return the CPU hours that the README beside a suite states for a profile; nothing where it has none.

        A row that names no profile is about `small`.
        """
        readme = suite.parent / "README.md"
        known = [one for one in profiles(suite).values() if one]
        for header, *rows in tables_in(readme.read_text("utf-8") if readme.exists() else ""):
            places = [place for place, name in enumerate(header) if name.startswith(COST)]
            for row in rows if places else ():
                if re.search(rf"(?<![\w-]){re.escape(suite.stem)}(?![\w-])", row[0]):
                    named = [one for one in known if f"`{one}`" in row[0]] or ["small"]
                    if profile in named and (found := HOURS.match(row[places[0]])):
                        return found[0]
        return ""


@cache
def settings(suite: Path) -> Mapping[str, Any]:
    """Return what stands in the file of a suite."""
    return read(suite).data


def profiles(suite: Path) -> dict[str, str | None]:
    """Return the profiles of a suite by the names of their reports."""
    names = settings(suite).get("profiles", ())
    return {suite.stem: None, **{f"{suite.stem}-{one}": one for one in names}}


def written(folder: Path) -> Path:
    """Return the folder of a report, which has another name if a cell failed, as some are meant to."""
    failed = folder.with_name(f"{folder.name}-failed")
    return failed if failed.is_dir() and not folder.is_dir() else folder


def tables_in(text: str) -> Iterator[list[list[str]]]:
    """Yield the tables of a Markdown page as rows of cells, the headings first."""
    for piece in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in piece.splitlines()]
        yield [rows[0], *rows[2:]]


def page_text(text: str, place: Place) -> str:
    """Return a page with its marked blocks written anew; raise PageError, by line, where one cannot be."""
    written: list[str] = []
    opened = ""
    for number, line in enumerate(text.split("\n"), 1):
        found, before = OPENING.fullmatch(line), opened
        if opened and line != END and not found:
            continue
        written.append(line)
        if found and not before:
            opened = f"{place.page}:{number}: {line}"
            try:
                written += WRITERS[found[1]](found[2], place)
            except (PageError, BenchError) as error:
                raise PageError(f"{opened}: {error}") from None
        elif found or (line == END and not before):
            raise PageError(f"{place.page}:{number}: {line} stands {'inside' if found else 'outside'} of a block.")
        elif line == END:
            opened = ""
    if opened:
        raise PageError(f"{opened} has no {END}.")
    return "\n".join(written)


def table_lines(name: str, place: Place) -> list[str]:
    """Return a table of a report, our numbers with the published ones and verdicts."""
    folder, _, table = name.rpartition("/")
    path = written(place.root / "reports" / folder)
    if not path.is_dir():
        return _waiting(folder, table, place)
    report = report_in(path)
    _known(table, report.results["tables"], f"reports/{folder}")
    return [*_grid(report.results["tables"][table], _digits(report)), "", *_about(report, table, place)]


def _waiting(folder: str, table: str, place: Place) -> list[str]:
    """Return what stands for a table of a suite and profile that has no report."""
    paper, _, name = folder.rpartition("/")
    suite = next((one for one in place.suites(paper) if name in profiles(one)), None)
    if suite is None:
        raise PageError(f"neither reports/{folder} nor a suite with a profile of that name is there.")
    data, profile = settings(suite), profiles(suite)[name]
    tables = (data["profiles"][profile] if profile else {}).get("tables", data["tables"])
    _known(table, [one["id"] for one in tables], f"suites/{paper}/{suite.name}")
    cost = place.cost(suite, profile)
    return [f"Not run yet{f' (profile `{profile}`: {cost} CPU hours)' if cost else ''}."]


def _known(table: str, tables: Collection[str], where: str) -> None:
    if table not in tables:
        raise PageError(f"{where} has no table {table!r}, only {', '.join(tables)}.")


def _digits(report: Report) -> Mapping[str, int]:
    """Return the digits after the point that each metric of a report prints at most."""
    numbers = [pair for cell in report.results["cells"] for pair in cell["numbers"].items()]
    return {name: max(one["digits"] for key, one in numbers if key == name) for name in dict(numbers)}


def _grid(records: Sequence[Record], digits: Mapping[str, int]) -> list[str]:
    """Return a table as Markdown, with the labels that its report prints."""
    rows = {one["row"]: one["row_label"] or one["row"] for one in records}
    keys = ("column", "value", "kind", "signature", "of")
    columns: dict[tuple[str, ...], list[Record]] = {}
    for one in records:
        columns.setdefault(tuple(one[key] for key in keys), []).append(one)
    known = {key: {one["row"]: one for one in found} for key, found in columns.items()}
    worthy = {key: worth(_errors(found), digits.get(key[1], _own(found))) for key, found in columns.items()}
    lines = [["", *(markdown(found[0]["column_label"]) for found in columns.values())]]
    lines.append(["---", *["---:"] * len(columns)])
    for row, label in rows.items():
        cells = [_cell(known[key][row], worthy[key]) if row in known[key] else "" for key in columns]
        lines.append([markdown(label), *cells])
    return [_line(one) for one in lines]


def _own(records: Iterable[Record]) -> int:
    """Return the digits of a column that has no metric: none if it has whole numbers alone."""
    values = [_number(one["mean"]) for one in records]
    return 0 if all(one is None or one == round(one) for one in values) else DIGITS


def _errors(records: Iterable[Record]) -> Iterator[float]:
    """Yield the standard errors of the numbers of a column."""
    for one in records:
        low, high, std, n = _number(one["low"]), _number(one["high"]), _number(one["std"]), one["n"]
        if low is not None and high is not None:
            yield (high - low) / NORMAL
        elif std is not None and n:
            yield std / sqrt(n)
        yield _number(one["error"]) or 0.0


def _cell(one: Record, digits: int) -> str:
    """Return a number of ours with its spread, and below it what was published and the verdict."""
    mean, std = _number(one["mean"]), _number(one["std"])
    ours = markdown(str(one["mean"] or ("–" if one["status"] in ("done", "none") else one["status"])))
    if mean is not None:
        ours = rounded(mean, digits) + ("" if std is None else f" ± {rounded(std, digits)}")
        ours = f"**{ours}**" if one["best"] else ours
        ours += f" ({one['n']} of {one['seeds']} seeds)" if one["n"] < one["seeds"] else ""
    if one["published_mean"] is None:
        return ours
    published = printed(Value(mean=one["published_mean"], std=one["published_std"]), digits)
    verdict = "" if one["verdict"] in ("", "not comparable") else f", {_beside(one, digits)}"
    return f"{ours} <sub>{markdown(published)}{verdict}</sub>"


def _beside(one: Record, digits: int) -> str:
    difference = _number(one["difference"])
    return " ".join([*([] if difference is None else [signed(difference, digits)]), one["verdict"]])


def _number(value: Any) -> float | None:
    """Return a number of a report, in which infinities are words; None where there is none."""
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _about(report: Report, table: str, place: Place) -> list[str]:
    """Return from which report a table is, and how to read what was published."""
    records = report.results["tables"][table]
    seeds = "" if report.trainings == "none" else f", {counted(int(report.trainings), 'seed')}"
    words = [f"From {place.link(report)}: commit {report.commit}{seeds}, {_hours(report.cpu_hours)} CPU hours."]
    if any(one["published_mean"] is not None for one in records):
        unlike = any(one["verdict"] == "not comparable" for one in records)
        profile = report.results.get("profile")
        why = f" (profile `{profile}`)" if profile not in FULL else ""
        words.append(f"Small type: published{f'; not comparable{why}' if unlike else ''}.")
    return [" ".join(words)]


def _hours(value: float) -> str:
    return "less than 0.01" if value < 0.01 else f"{float(f'{value:.2g}'):.2f}".rstrip("0").rstrip(".")


def claims_lines(paper: str, place: Place) -> list[str]:
    """Return the verdicts of all reports of a paper, and which claims no report has judged."""
    lines, waiting = [["claim", "report", "verdict", "p", "seeds", "statement"], ["---"] * 6], list[str]()
    for suite in place.suites(paper):
        reports = place.reports(suite)
        lines += [_claim(one, report, place) for report in reports for one in report.results["claims"]]
        ids = [one["id"] for one in settings(suite).get("claims", ())]
        if ids and not reports:
            waiting.append(f"`{suite.stem}` ({', '.join(ids)})")
    found = [_line(one) for one in lines] if len(lines) > 2 else []
    rest = [f"Not run yet: {', '.join(waiting)}."] if waiting else []
    return [*found, *([""] if found and rest else []), *rest]


def _claim(one: Record, report: Report, place: Place) -> list[str]:
    """Return a line about a claim; a verdict that is no decision comes with its first remark."""
    remark = "" if one["verdict"].startswith(DECIDED) else "".join(f": {text}" for text in one["remarks"][:1])
    adjusted = one.get("adjusted")
    p = _p(one.get("p")) + ("" if adjusted in (None, one["p"]) else f" (adjusted {_p(adjusted)})")
    return [
        one["id"], place.link(report), markdown(one["verdict"] + remark), p, str(_seeds(one, report)),
        markdown(one["text"]),
    ]  # fmt: skip


def _p(value: float | None) -> str:
    return "" if value is None else "< 1e-6" if value < LEAST else f"{value:.2g}"


def _seeds(claim: Record, report: Report) -> int:
    """Return how many seeds all trained models of a claim have; all models where none is trained."""
    models = report.results["models"] or {}
    counts = [(one["n"], models.get(one["axes"].get("model"), {}).get("updates") != 0) for one in claim["values"]]
    return min([n for n, trained in counts if trained] or [n for n, _ in counts], default=0)


def reports_lines(paper: str, place: Place) -> list[str]:
    """Return the suites of a paper with their reports, or what it would take to write one."""
    lines = [["suite", "report", "commit", "seeds", "CPU hours"], ["---", "---", "---", "---:", "---:"]]
    for suite in place.suites(paper):
        name = f"[`{suite.name}`]({Path(os.path.relpath(suite, place.page.parent)).as_posix()})"
        reports = place.reports(suite)
        lines += [[name, place.link(one), one.commit, one.trainings, _hours(one.cpu_hours)] for one in reports]
        if not reports:
            lines.append([name, "not run yet", "", "", place.cost(suite) and f"{place.cost(suite)} (`small`)"])
    return [_line(one) for one in lines]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


WRITERS: Mapping[str, Callable[[str, Place], list[str]]] = {
    "table": table_lines, "claims": claims_lines, "reports": reports_lines,
}  # fmt: skip


def pages() -> list[Path]:
    """Return the pages with marked blocks that the repository may have."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> int:
    """Write all pages anew; return 1 where one cannot be."""
    try:
        for page in pages():
            before = page.read_text("utf-8")
            after = page_text(before, Place(ROOT, page))
            if after != before:
                page.write_text(after, encoding="utf-8")
                print(f"{page.relative_to(ROOT)} is written.")
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
