"""Verification of the files of a report against one another, and against its run if available."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isclose, isnan, nan
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from bench_core.errors import BenchError
from bench_core.runs.manifest import Manifest, Remark, read_manifest
from bench_core.runs.results import Run, as_json, cell_as_json, plain_file
from bench_core.runs.selecting import cell_name
from bench_core.suites.axes import AXES
from bench_reports.content.cost_tables import costs_over_seeds
from bench_reports.content.numbers import rounded
from bench_reports.content.sorting import by_key, ordered
from bench_reports.statistics.intervals import summary
from bench_reports.verification.written_tables import (
    Page,
    latex_rows,
    letters,
    markdown_tables,
    numbers,
    plain_markdown,
    read_html,
    unlike,
)
from plain_files import from_csv

RELATIVE_TOLERANCE = 1e-9  # relative tolerance of means summed in a different order
MAX_NUMBERS = 5  # numbers in a message
ONE = r"(−?[\d.]+(?:e[+-]?\d+)?|–|−?∞)"
SHOWN_NUMBER = re.compile(rf"{ONE}(?: ± {ONE})?(?: \[{ONE}, {ONE}\])?")
CHANGE = re.compile(r"\(([+−]?[\d.]+(?:e[+-]?\d+)?|[+−]?∞|–)\**\)")
BESIDE = " beside the published"


def verify_report(folder: Path, run: Run | None) -> Iterator[Remark]:
    """Yield the contradictions in a report, and the files that cannot be checked."""
    try:
        manifest = read_manifest(folder)
        report = _Report(folder, json.loads(plain_file(folder / "results.json")))
        yield from report.remarks()
    except (BenchError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        yield Remark(f"{folder}: the report cannot be read: {error or type(error).__name__}")
        return
    if run is not None:
        yield from _beside_run(folder, manifest, report.results, run)


def _beside_run(folder: Path, manifest: Manifest, results: Mapping[str, Any], run: Run) -> Iterator[Remark]:
    """Yield the differences between a report and its run."""
    from bench_reports.render.code import code_digest
    from bench_reports.render.report import contents

    cells = [as_json(cell_as_json(cell)) for cell in ordered(run)]
    reported = {cell_name(cell["cell"]): cell for cell in results.get("cells", ())}
    for cell in cells:
        name = cell_name(cell["cell"])
        if reported.get(name) != cell:
            yield Remark(f"{folder / 'results.json'}: {name} differs from the run {run.folder}")
    for name in {*reported} - {cell_name(cell["cell"]) for cell in cells}:
        yield Remark(f"{folder / 'results.json'}: {name} is not a cell of the run {run.folder}")
    if manifest.code != code_digest():
        yield Remark(f"{folder}: written by a different version of the code, so it cannot be reproduced here", False)
        return
    latex = folder / "report.tex"
    again = contents(run, utf_8=latex.is_file() and not plain_file(latex).isascii())
    for name in sorted({*again, *manifest.files}):
        content = plain_file(folder / name) if (folder / name).is_file() else None
        if again.get(name) != content:
            yield Remark(f"{folder / name}: differs from the file reproduced from the run {run.folder}")


@dataclass
class _Report:
    """A report as read from its files."""

    folder: Path
    results: Mapping[str, Any]

    def remarks(self) -> Iterator[Remark]:
        """Yield the contradictions between files."""
        for text in [*self._tables(), *self._sort_values(), *self._claims(), *self._numbers()]:
            yield Remark(f"{self.folder}/{text}")

    def _text(self, name: str) -> str:
        return plain_file(self.folder / name).decode("utf-8")

    @cached_property
    def _markdown(self) -> dict[str, list[list[str]]]:
        return markdown_tables(self._text("report.md"))

    @cached_property
    def _page(self) -> Page:
        return read_html(self._text("report.html"))

    @cached_property
    def _means(self) -> dict[tuple[str, str, str], list[list[float]]]:
        """The values of each metric over seeds, by kind and signature."""
        values: list[tuple[Any, float]] = []
        for cell in self.results["cells"]:
            names = [cell["cell"].get(axis) for axis in AXES if axis != "seed"]
            values += [
                ((metric, number["kind"], number["signature"], *names), float(number["value"]))
                for metric, number in cell["numbers"].items() if number["value"] is not None
            ]  # fmt: skip
        return by_key((key[:3], over_seeds) for key, over_seeds in by_key(values).items())

    def _tables(self) -> Iterator[str]:
        """Yield where tables, and their differences from published numbers, contradict results.json."""
        for name, records in self.results["tables"].items():
            file = f"tables/{name}.csv"
            rows = [{key: "" if value is None else str(value) for key, value in record.items()} for record in records]
            if from_csv(self._text(file)) != rows:
                yield f"{file}: its numbers differ from table {name} in results.json"
            for record in records:
                if not self._has_source(record, records):
                    where = f"results.json: table {name}, {record['row']} x {record['column']}"
                    yield f"{where}: {record['mean']} is not the mean of any cells"
            if records:
                yield from self._table_problems(name, records)

    def _has_source(self, record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether a mean in a table follows from cells or from other columns."""
        if not record["n"] or record["value"] not in {metric for metric, _, _ in self._means}:
            return True  # a text, or a statistic of a task
        if record["of"] != "cells":
            return _is_summary(record, records)
        groups = self._means.get((record["value"], record["kind"], record["signature"]), ())
        return any(_is_mean(record, values) for values in groups)

    def _table_problems(self, name: str, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield where Markdown, LaTeX and HTML contradict a table of results.json."""
        shown = self._markdown.get(name)
        if not shown or len(records) != (len(shown[0]) - 1) * (len(shown) - 1):
            yield f"report.md: table {name} of results.json is missing"
            return
        across = [*dict.fromkeys(record["row"] for record in records)]
        width = len(records) // len(across)
        label = records[0]["row_label"]
        transposed = len(shown) - 1 == width and _is_label(shown[0][1], label)
        if transposed and len(shown[0]) - 1 == width:  # a square table, which may not be transposed
            transposed = not _is_label(shown[1][0], label)
        rows = [*map(list, zip(*shown, strict=True))] if transposed else shown
        for place, record in enumerate(records):
            line, column = rows[place // width + 1], place % width + 1
            where = f"report.md: table {name}, {record['row']} x {record['column']}"
            if not _is_label(line[0], record["row_label"]):
                yield f"{where}: the row is labelled {plain_markdown(line[0])!r}"
            if not _is_label(rows[0][column], record["column_label"]):
                yield f"{where}: the column is labelled {plain_markdown(rows[0][column])!r}"
            if not _shows(line[column], record):
                stored = f"results.json has {record['mean']} ({record['status']})"
                yield f"{where}: it shows {plain_markdown(line[column])!r}, but {stored}"
        yield from self._alike(name, f"table-{name}", name)
        differences = self._markdown.get(f"{name}{BESIDE}")
        compared = [record for record in records if record["difference"] is not None]
        if bool(compared) != bool(differences):
            yield f"report.md: the differences of table {name} from the published numbers are missing"
        elif differences:
            yield from self._differences(name, differences, compared)

    def _differences(
        self, name: str, rows: Sequence[Sequence[str]], compared: Sequence[Mapping[str, Any]]
    ) -> Iterator[str]:
        """Yield where differences from published numbers, or verdicts, contradict results.json."""
        shown = Counter(plain_markdown(cell) for row in rows[1:] for cell in row[1:])
        shown.pop("–", None)
        left = [*shown.elements()]
        for record in compared:
            fitting = [text for text in left if _is_difference(text, record)]
            if not fitting:
                where = f"report.md: table {name}{BESIDE}, {record['row']} x {record['column']}"
                yield f"{where}: {record['difference']} {record['verdict']} of results.json is missing"
            else:
                left.remove(max(fitting, key=len))  # 0.0 may also be shown as 0
        if left:
            yield f"report.md: table {name}{BESIDE} shows {left[0]!r}, which is not in results.json"
        latex = sorted((self.folder / "tables").glob("*.tex"))
        file = next((path for path in latex if path.stem.startswith(f"{name}-published")), None)
        yield from self._alike(f"{name}{BESIDE}", f"beside-{name}", file.stem if file else f"{name}-published")

    def _alike(self, name: str, page: str, file: str) -> Iterator[str]:
        """Yield the cells of a table that differ between Markdown and HTML or LaTeX."""
        ours = [[plain_markdown(cell) for cell in row] for row in self._markdown[name]]
        others = {
            "report.html": self._page.tables.get(page, []),
            f"tables/{file}.tex": latex_rows(self._text(f"tables/{file}.tex")),
        }
        for written, theirs in others.items():
            for row, column in unlike(ours, theirs):
                where = f"{ours[row][0]} x {ours[0][column]}" if (row, column) != (0, 0) else "whole table"
                yield f"{written}: {name}, {where}: differs from report.md"

    def _sort_values(self) -> Iterator[str]:
        """Yield the HTML cells whose sort key differs from the number shown."""
        for name, rows in self._page.tables.items():
            for row, values in zip(rows, self._page.values[name], strict=True):
                for cell, value in zip(row, values, strict=True):
                    if value is not None and not _rounds(cell, value):
                        yield f"report.html: {name}, {row[0]}: it shows {cell!r}, but sorts by {value}"

    def _claims(self) -> Iterator[str]:
        """Yield where the verdicts of claims contradict results.json."""
        verdicts = {claim["id"]: claim["verdict"] for claim in self.results["claims"]}
        shown = {plain_markdown(row[0]): plain_markdown(row[1]) for row in self._markdown.get("Claims", ())[1:]}
        if shown != verdicts:
            yield f"report.md: the verdicts of {_differing(shown, verdicts)} differ from results.json"
        page = {row[0]: row[1] for row in self._page.tables.get("claims", ())[1:]}
        if page != verdicts:
            yield f"report.html: the verdicts of {_differing(page, verdicts)} differ from results.json"
        for claim in self.results["claims"]:
            for value in claim["values"]:
                if value["n"] and not self._is_claim_mean(value):
                    where = f"results.json: claim {claim['id']}: {value['metric']}"
                    yield f"{where} {value['mean']} is not the mean of any cells"

    def _is_claim_mean(self, value: Mapping[str, Any]) -> bool:
        name = value["metric"]
        groups = [values for (metric, *_), several in self._means.items() if metric == name for values in several]
        if name.startswith("cost."):
            groups = costs_over_seeds(self._text("costs.csv"), self.results["cells"], name)
        return any(_is_mean(value, values) for values in groups)

    def _numbers(self) -> Iterator[str]:
        """Yield the numbers in the text and tables of report.md that are neither in report.html nor in figures."""
        links = r"\]\(<[^>]*>\)|!\[[^\]]*\]\([^)]*\)"
        written = numbers(re.sub(links, " ", plain_markdown(self._text("report.md"))))
        others = {*numbers(" ".join(self._page.text))}
        for path in sorted((self.folder / "figures").glob("*.csv")):
            others.update(numbers(self._text(f"figures/{path.name}").replace(",", " ")))
        if lacking := [number for number in dict.fromkeys(written) if number not in others]:
            yield f"report.md: it has numbers that report.html lacks: {', '.join(lacking[:MAX_NUMBERS])}"


def _is_mean(record: Mapping[str, Any], values: Sequence[float]) -> bool:
    over = summary(values)
    pairs = [(record["mean"], over.mean), (record["std"], over.std)]
    return record["n"] == len(values) and all(_close(*pair) for pair in pairs)


def _is_summary(record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether an average or a rank follows from the columns of its metric."""
    alike = ("value", "kind")
    columns: dict[str, dict[str, float]] = {}
    for other in records:
        if other["of"] == "cells" and all(other[key] == record[key] for key in alike) and other["n"]:
            value = columns.setdefault(other["column"], {})
            if not isnan(float(other["mean"])):
                value[other["row"]] = float(other["mean"])
    values = [column.get(record["row"], nan) for column in columns.values()]
    if record["of"] == "average":
        positive = all(value > 0 for value in values)
        return _close(record["mean"], fmean(values)) or (positive and _close(record["mean"], geometric_mean(values)))
    whole = set.intersection(*({*column} for column in columns.values()))
    below = [{row: value for row, value in column.items() if row in whole} for column in columns.values()]
    ranks = [fmean(_rank(column, record["row"], way) for column in below) for way in (1, -1)]
    return any(_close(record["mean"], rank) for rank in ranks)


def _rank(column: Mapping[str, float], row: str, way: int) -> float:
    """Return the rank of a row in a column, 1 for the best; tied rows share their mean rank."""
    values = [way * value for value in column.values()]
    score = way * column[row]
    return sum(value > score for value in values) + (1 + values.count(score)) / 2


def _close(first: Any, other: Any) -> bool:
    if first is None or other is None:
        return first is other
    first, other = float(first), float(other)
    return isclose(first, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-300) or str(first) == str(other)


def _is_label(shown: str, label: str) -> bool:
    return letters(plain_markdown(shown)) == letters(label)


def _shows(cell: str, record: Mapping[str, Any]) -> bool:
    """Return whether a Markdown cell shows a number of results.json, with its bold type and published value."""
    main, small = re.split("<sup>|<sub>", cell)[0], re.search("<sub>(.*)</sub>", cell)
    bold, text = "**" in main, plain_markdown(main).strip()
    if bold != bool(record["best"]):
        return False
    if small and type(record["published_mean"]) in (int, float):
        printed = SHOWN_NUMBER.fullmatch(plain_markdown(small[1]).strip())
        if not printed or not _fits(printed, record["published_mean"], record["published_std"]):
            return False
    if not record["n"]:
        words = (str(record["mean"]), record["status"], "–")
        return any(letters(text) == letters(word) for word in words)
    change = CHANGE.search(plain_markdown(cell))
    if (change is None) != (record["change"] in (None, "nan")):
        return False
    if change and not _rounds(change[1], record["change"]):
        return False
    match = SHOWN_NUMBER.fullmatch(CHANGE.sub("", text).strip())
    return bool(match) and _fits(match, record["mean"], record["std"], [record["low"], record["high"]])  # type: ignore[arg-type]


def _fits(match: re.Match[str], mean: Any, std: Any, ends: Sequence[Any] = ()) -> bool:
    """Return whether the shown number, standard deviation and interval ends agree with the values."""
    pairs = [(match[1], mean), (match[2], std), *zip([match[3], match[4]], ends, strict=False)]
    return all(text is None or (value is not None and _rounds(text, value)) for text, value in pairs)


def _rounds(text: str, value: Any) -> bool:
    """Return whether a text starts with a value rounded to the digits shown."""
    try:
        exact = float(value)
    except ValueError:
        return letters(text).startswith(letters(str(value)))
    word = re.match(r"[+−-]?[\d.,]+(?:e[+-]?\d+)?|–|[+−]?∞", text.strip())
    if not word:
        return False
    shown = word[0].replace(",", "").lstrip("+")
    digits = len(shown.partition("e")[0].partition(".")[2])
    return rounded(exact, digits) == shown or _close(exact, _number(shown))


def _number(text: str) -> float | None:
    try:
        return float(text.replace("−", "-"))
    except ValueError:
        return None


def _is_difference(text: str, record: Mapping[str, Any]) -> bool:
    number, _, verdict = text.partition(" (")[0].partition(" ")
    expected = record["verdict"] if record["verdict"] != "not comparable" else ""
    return verdict == expected and _rounds(number, record["difference"])


def _differing(first: Mapping[str, str], other: Mapping[str, str]) -> str:
    return ", ".join(name for name in sorted({**first, **other}) if first.get(name) != other.get(name))
