"""Generate the numbers and verdicts on documentation pages from the committed reports.

`make papers` fills the blocks between these comments:

    <!-- table: strlm/table-8-small/table-8 -->   the table `table-8` of reports/strlm/table-8-small
    <!-- claims: strlm -->                        the verdicts of all reports in reports/strlm
    <!-- reports: strlm -->                       the suites of a paper with their reports, commits, seeds, CPU hours
    <!-- end -->

Suites without a report are marked "not run yet", with the CPU hours from the README beside them. Reports without a
manifest, or with files that do not match it, are rejected.
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
from bench_core.terminal import count_of
from bench_reports.content.numbers import NORMAL, printed, rounded, signed, worth
from bench_reports.language.published import Value
from bench_reports.render.markdown import markdown

BLOCK_START = re.compile(r"<!-- (table|claims|reports): (\S+) -->")
BLOCK_END = "<!-- end -->"
COST_COLUMN = "CPU hours"  # start of a column heading in the README of a paper's suites
HOURS = re.compile(r"(?:< |about )?[\d.,]*\d")
PAPER_PROFILES = (None, "paper")  # profiles that reproduce the set-up of a paper
DECIDED = ("holds", "fails")
MIN_P_VALUE = 1e-6  # smaller p-values are not meaningful
DEFAULT_DIGITS = 2  # maximum digits of numbers without a metric

Record = Mapping[str, Any]


class PageError(Exception):
    """A page cannot be generated; the message names the line."""


@dataclass(frozen=True)
class Report:
    """A committed report."""

    folder: Path
    manifest: Manifest
    results: Record
    cpu_hours: float  # including stages shared with other suites

    @property
    def trainings(self) -> str:
        """The number of seeds; `none` for a report on data only."""
        return str(len({cell["cell"]["seed"] for cell in self.results["cells"]}) or "none")

    @property
    def commit(self) -> str:
        """The commit of the run, or the version if there was no repository."""
        commit = self.manifest.commit
        return f"`{commit.id[:7]}`{'' if commit.clean else ' (with changes)'}" if commit else self.manifest.bench


@cache
def report_in(folder: Path) -> Report:
    """Read a report; raise StoreError if its manifest is missing or does not match its files."""
    manifest = read_manifest(folder)
    if errors := [problem.text for problem in problems(folder) if problem.wrong]:
        raise StoreError(errors[0])
    with (folder / "costs.csv").open(encoding="utf-8", newline="") as file:
        seconds = sum(float(problem["cpu_seconds"] or 0) for problem in csv.DictReader(file))
    return Report(folder, manifest, json.loads((folder / "results.json").read_text("utf-8")), seconds / 3600)


@dataclass(frozen=True)
class Place:
    """A page of a repository with suites and reports."""

    root: Path
    page: Path

    def link(self, report: Report) -> str:
        """Return a link from the page to a report."""
        name = report.folder.relative_to(self.root / "reports").as_posix()
        return f"[{name}]({Path(os.path.relpath(report.folder, self.page.parent)).as_posix()}/report.md)"

    def suites(self, paper: str) -> list[Path]:
        """Return the suites of a paper in natural order (table-2 before table-10)."""
        suites = [*(self.root / "suites" / paper).glob("*.yaml")]
        if not suites:
            raise PageError(f"suites/{paper} has no suites.")
        return sorted(suites, key=lambda path: [part.zfill(3) for part in re.split(r"(\d+)", path.stem)])

    def reports(self, suite: Path) -> list[Report]:
        """Return the reports of a suite, by profile."""
        folder = self.root / "reports" / suite.parent.name
        return [report_in(path) for name in profiles(suite) if (path := report_folder(folder / name)).is_dir()]

    def cost(self, suite: Path, profile: str | None = "small") -> str:
        """Return the CPU hours of a profile from the README beside a suite; an empty string if they are missing.

        Rows without a profile are about `small`.
        """
        readme = suite.parent / "README.md"
        names = [name for name in profiles(suite).values() if name]
        for header, *rows in tables_in(readme.read_text("utf-8") if readme.exists() else ""):
            places = [place for place, name in enumerate(header) if name.startswith(COST_COLUMN)]
            for row in rows if places else ():
                if re.search(rf"(?<![\w-]){re.escape(suite.stem)}(?![\w-])", row[0]):
                    profiles_ = [name for name in names if f"`{name}`" in row[0]] or ["small"]
                    if profile in profiles_ and (match := HOURS.match(row[places[0]])):
                        return match[0]
        return ""


@cache
def settings(suite: Path) -> Mapping[str, Any]:
    """Return the content of a suite file."""
    return read(suite).data


def profiles(suite: Path) -> dict[str, str | None]:
    """Return the profiles of a suite by report name."""
    names = settings(suite).get("profiles", ())
    return {suite.stem: None, **{f"{suite.stem}-{profile}": profile for profile in names}}


def report_folder(folder: Path) -> Path:
    """Return the folder of a report; it ends in `-failed` if a cell failed, which some suites intend."""
    failed = folder.with_name(f"{folder.name}-failed")
    return failed if failed.is_dir() and not folder.is_dir() else folder


def tables_in(text: str) -> Iterator[list[list[str]]]:
    """Yield the tables of a Markdown page as rows of cells, starting with the headings."""
    for piece in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in piece.splitlines()]
        yield [rows[0], *rows[2:]]


def page_text(text: str, place: Place) -> str:
    """Return a page with regenerated blocks; raise PageError, with the line, for an invalid block."""
    lines: list[str] = []
    block = ""
    for number, line in enumerate(text.split("\n"), 1):
        start, inside = BLOCK_START.fullmatch(line), block
        if block and line != BLOCK_END and not start:
            continue
        lines.append(line)
        if start and not inside:
            block = f"{place.page}:{number}: {line}"
            try:
                lines += WRITERS[start[1]](start[2], place)
            except (PageError, BenchError) as error:
                raise PageError(f"{block}: {error}") from None
        elif start or (line == BLOCK_END and not inside):
            raise PageError(f"{place.page}:{number}: {line} is {'inside' if start else 'outside'} a block.")
        elif line == BLOCK_END:
            block = ""
    if block:
        raise PageError(f"{block} has no {BLOCK_END}.")
    return "\n".join(lines)


def table_lines(name: str, place: Place) -> list[str]:
    """Return a table of a report: our numbers, published numbers and verdicts."""
    folder, _, table = name.rpartition("/")
    path = report_folder(place.root / "reports" / folder)
    if not path.is_dir():
        return _missing_report(folder, table, place)
    report = report_in(path)
    _require_table(table, report.results["tables"], f"reports/{folder}")
    return [*_grid(report.results["tables"][table], _digits(report)), "", *_about(report, table, place)]


def _missing_report(folder: str, table: str, place: Place) -> list[str]:
    """Return the text that replaces a table whose suite and profile have no report."""
    paper, _, name = folder.rpartition("/")
    suite = next((suite_ for suite_ in place.suites(paper) if name in profiles(suite_)), None)
    if suite is None:
        raise PageError(f"neither reports/{folder} nor a suite with that profile exists.")
    data, profile = settings(suite), profiles(suite)[name]
    tables = (data["profiles"][profile] if profile else {}).get("tables", data["tables"])
    _require_table(table, [suite_["id"] for suite_ in tables], f"suites/{paper}/{suite.name}")
    cost = place.cost(suite, profile)
    return [f"Not run yet{f' (profile `{profile}`: {cost} CPU hours)' if cost else ''}."]


def _require_table(table: str, tables: Collection[str], where: str) -> None:
    if table not in tables:
        raise PageError(f"{where} has no table {table!r}, only {', '.join(tables)}.")


def _digits(report: Report) -> Mapping[str, int]:
    """Return the maximum number of decimals of each metric in a report."""
    numbers = [pair for cell in report.results["cells"] for pair in cell["numbers"].items()]
    return {name: max(number["digits"] for key, number in numbers if key == name) for name in dict(numbers)}


def _grid(records: Sequence[Record], digits: Mapping[str, int]) -> list[str]:
    """Return a table as Markdown, with the labels of its report."""
    rows = {record["row"]: record["row_label"] or record["row"] for record in records}
    keys = ("column", "value", "kind", "signature", "of")
    columns: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        columns.setdefault(tuple(record[key] for key in keys), []).append(record)
    by_row = {key: {record["row"]: record for record in group} for key, group in columns.items()}
    decimals = {key: worth(_errors(part), digits.get(key[1], _default_digits(part))) for key, part in columns.items()}
    lines = [["", *(markdown(group[0]["column_label"]) for group in columns.values())]]
    lines.append(["---", *["---:"] * len(columns)])
    for row, label in rows.items():
        cells = [_cell(by_row[key][row], decimals[key]) if row in by_row[key] else "" for key in columns]
        lines.append([markdown(label), *cells])
    return [_line(record) for record in lines]


def _default_digits(records: Iterable[Record]) -> int:
    """Return the decimals of a column without a metric: 0 if all its numbers are whole."""
    values = [_number(value["mean"]) for value in records]
    return 0 if all(value is None or value == round(value) for value in values) else DEFAULT_DIGITS


def _errors(records: Iterable[Record]) -> Iterator[float]:
    """Yield the standard errors of the numbers in a column."""
    for record in records:
        low, high, std, n = _number(record["low"]), _number(record["high"]), _number(record["std"]), record["n"]
        if low is not None and high is not None:
            yield (high - low) / NORMAL
        elif std is not None and n:
            yield std / sqrt(n)
        yield _number(record["error"]) or 0.0


def _cell(record: Record, digits: int) -> str:
    """Return our number with its standard deviation, then the published number and the verdict in small type."""
    mean, std = _number(record["mean"]), _number(record["std"])
    ours = markdown(str(record["mean"] or ("–" if record["status"] in ("done", "none") else record["status"])))
    if mean is not None:
        ours = rounded(mean, digits) + ("" if std is None else f" ± {rounded(std, digits)}")
        ours = f"**{ours}**" if record["best"] else ours
        ours += f" ({record['n']} of {record['seeds']} seeds)" if record["n"] < record["seeds"] else ""
    if record["published_mean"] is None:
        return ours
    published = printed(Value(mean=record["published_mean"], std=record["published_std"]), digits)
    verdict = "" if record["verdict"] in ("", "not comparable") else f", {_beside(record, digits)}"
    return f"{ours} <sub>{markdown(published)}{verdict}</sub>"


def _beside(record: Record, digits: int) -> str:
    difference = _number(record["difference"])
    return " ".join([*([] if difference is None else [signed(difference, digits)]), record["verdict"]])


def _number(value: Any) -> float | None:
    """Return a number of a report, where infinities are strings; None if there is no number."""
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _about(report: Report, table: str, place: Place) -> list[str]:
    """Return the source of a table, and how to read the published numbers."""
    records = report.results["tables"][table]
    seeds = "" if report.trainings == "none" else f", {count_of(int(report.trainings), 'seed')}"
    words = [f"From {place.link(report)}: commit {report.commit}{seeds}, {_hours(report.cpu_hours)} CPU hours."]
    if any(record["published_mean"] is not None for record in records):
        incomparable = any(record["verdict"] == "not comparable" for record in records)
        profile = report.results.get("profile")
        why = f" (profile `{profile}`)" if profile not in PAPER_PROFILES else ""
        words.append(f"Small type: published{f'; not comparable{why}' if incomparable else ''}.")
    return [" ".join(words)]


def _hours(value: float) -> str:
    return "less than 0.01" if value < 0.01 else f"{float(f'{value:.2g}'):.2f}".rstrip("0").rstrip(".")


def claims_lines(paper: str, place: Place) -> list[str]:
    """Return the verdicts of all reports of a paper, and the claims of suites without a report."""
    lines, missing = [["claim", "report", "verdict", "p", "seeds", "statement"], ["---"] * 6], list[str]()
    for suite in place.suites(paper):
        reports = place.reports(suite)
        lines += [_claim(record, report, place) for report in reports for record in report.results["claims"]]
        ids = [record["id"] for record in settings(suite).get("claims", ())]
        if ids and not reports:
            missing.append(f"`{suite.stem}` ({', '.join(ids)})")
    rows = [_line(record) for record in lines] if len(lines) > 2 else []
    footer = [f"Not run yet: {', '.join(missing)}."] if missing else []
    return [*rows, *([""] if rows and footer else []), *footer]


def _claim(record: Record, report: Report, place: Place) -> list[str]:
    """Return a row about a claim; an undecided verdict comes with its first remark."""
    remark = "" if record["verdict"].startswith(DECIDED) else "".join(f": {text}" for text in record["remarks"][:1])
    adjusted = record.get("adjusted")
    p = _p_value(record.get("p")) + ("" if adjusted in (None, record["p"]) else f" (adjusted {_p_value(adjusted)})")
    return [
        record["id"], place.link(report), markdown(record["verdict"] + remark), p, str(_seeds(record, report)),
        markdown(record["text"]),
    ]  # fmt: skip


def _p_value(value: float | None) -> str:
    return "" if value is None else "< 1e-6" if value < MIN_P_VALUE else f"{value:.2g}"


def _seeds(claim: Record, report: Report) -> int:
    """Return the number of seeds shared by the trained models of a claim, or by all models if no model is trained."""
    models = report.results["models"] or {}
    counts = [(each["n"], models.get(each["axes"].get("model"), {}).get("updates") != 0) for each in claim["values"]]
    return min([n for n, trained in counts if trained] or [n for n, _ in counts], default=0)


def reports_lines(paper: str, place: Place) -> list[str]:
    """Return the suites of a paper with their reports, or with the cost of a missing report."""
    lines = [["suite", "report", "commit", "seeds", "CPU hours"], ["---", "---", "---", "---:", "---:"]]
    for suite in place.suites(paper):
        name = f"[`{suite.name}`]({Path(os.path.relpath(suite, place.page.parent)).as_posix()})"
        reports = place.reports(suite)
        lines += [[name, place.link(each), each.commit, each.trainings, _hours(each.cpu_hours)] for each in reports]
        if not reports:
            lines.append([name, "not run yet", "", "", place.cost(suite) and f"{place.cost(suite)} (`small`)"])
    return [_line(report) for report in lines]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


WRITERS: Mapping[str, Callable[[str, Place], list[str]]] = {
    "table": table_lines, "claims": claims_lines, "reports": reports_lines,
}  # fmt: skip


def pages() -> list[Path]:
    """Return the pages that may contain blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> int:
    """Regenerate all pages; return 1 if a page is invalid."""
    try:
        for page in pages():
            before = page.read_text("utf-8")
            after = page_text(before, Place(ROOT, page))
            if after != before:
                page.write_text(after, encoding="utf-8")
                print(f"Wrote {page.relative_to(ROOT)}.")
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
