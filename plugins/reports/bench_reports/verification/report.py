"""Compares the files of a report with each other, and with its run if that is here."""

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
from bench_core.runs.results import Run, cell_as_json, plain_file
from bench_core.runs.selecting import cell_name
from bench_core.suites.axes import AXES
from bench_reports.content.cost_tables import costs_over_seeds
from bench_reports.content.numbers import json_data, rounded
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

CLOSE = 1e-9  # relative, of means that are added in another order
SHOWN = 5  # numbers in a message
ONE = r"(−?[\d.]+(?:e[+-]?\d+)?|–|−?∞)"
SHOWN_NUMBER = re.compile(rf"{ONE}(?: ± {ONE})?(?: \[{ONE}, {ONE}\])?")
CHANGE = re.compile(r"\(([+−]?[\d.]+(?:e[+-]?\d+)?|[+−]?∞|–)\**\)")
BESIDE = " beside the published"


def verify_report(folder: Path, run: Run | None) -> Iterator[Remark]:
    """Yield what contradicts what in a report, and what of it cannot be checked."""
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
    """Yield where a report is not that of its run."""
    from bench_reports.render.code import code_digest
    from bench_reports.render.report import contents

    cells = [json_data(cell_as_json(one)) for one in ordered(run)]
    told = {cell_name(one["cell"]): one for one in results.get("cells", ())}
    for one in cells:
        name = cell_name(one["cell"])
        if told.get(name) != one:
            yield Remark(f"{folder / 'results.json'}: {name} is not as in the run {run.folder}")
    for name in {*told} - {cell_name(one["cell"]) for one in cells}:
        yield Remark(f"{folder / 'results.json'}: {name} is no cell of the run {run.folder}")
    if manifest.code != code_digest():
        yield Remark(f"{folder}: other code wrote the report than is here, so that it cannot be written again", False)
        return
    latex = folder / "report.tex"
    again = contents(run, utf_8=latex.is_file() and not plain_file(latex).isascii())
    for name in sorted({*again, *manifest.files}):
        there = plain_file(folder / name) if (folder / name).is_file() else None
        if again.get(name) != there:
            yield Remark(f"{folder / name}: it is not what the run {run.folder} gives")


@dataclass
class _Report:
    """A report, as its files tell it."""

    folder: Path
    results: Mapping[str, Any]

    def remarks(self) -> Iterator[Remark]:
        """Yield where files contradict each other."""
        for text in [*self._tables(), *self._sorted(), *self._claims(), *self._numbers()]:
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
        for one in self.results["cells"]:
            names = [one["cell"].get(axis) for axis in AXES if axis != "seed"]
            values += [
                ((metric, number["kind"], number["signature"], *names), float(number["value"]))
                for metric, number in one["numbers"].items() if number["value"] is not None
            ]  # fmt: skip
        return by_key((key[:3], over_seeds) for key, over_seeds in by_key(values).items())

    def _tables(self) -> Iterator[str]:
        """Yield where the tables of results, and their differences from the published, are not as in results.json."""
        for name, records in self.results["tables"].items():
            file = f"tables/{name}.csv"
            known = [{key: "" if value is None else str(value) for key, value in one.items()} for one in records]
            if from_csv(self._text(file)) != known:
                yield f"{file}: its numbers are not those of table {name} in results.json"
            for record in records:
                if not self._founded(record, records):
                    where = f"results.json: table {name}, {record['row']} x {record['column']}"
                    yield f"{where}: {record['mean']} is the mean of no cells"
            if records:
                yield from self._written(name, records)

    def _founded(self, record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the mean of a table is that of some cells, or of other columns."""
        if not record["n"] or record["value"] not in {metric for metric, _, _ in self._means}:
            return True  # a text, or a statistic of a task
        if record["of"] != "cells":
            return _is_summary(record, records)
        known = self._means.get((record["value"], record["kind"], record["signature"]), ())
        return any(_is_mean(record, values) for values in known)

    def _written(self, name: str, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield where Markdown, LaTeX and HTML do not show a table of results.json."""
        shown = self._markdown.get(name)
        if not shown or len(records) != (len(shown[0]) - 1) * (len(shown) - 1):
            yield f"report.md: it does not show table {name} of results.json"
            return
        across = [*dict.fromkeys(record["row"] for record in records)]
        width = len(records) // len(across)
        label = records[0]["row_label"]
        transposed = len(shown) - 1 == width and _is_label(shown[0][1], label)
        if transposed and len(shown[0]) - 1 == width:  # as high as wide, perhaps with its rows in the rows
            transposed = not _is_label(shown[1][0], label)
        rows = [*map(list, zip(*shown, strict=True))] if transposed else shown
        for place, record in enumerate(records):
            line, column = rows[place // width + 1], place % width + 1
            where = f"report.md: table {name}, {record['row']} x {record['column']}"
            if not _is_label(line[0], record["row_label"]):
                yield f"{where}: the row is called {plain_markdown(line[0])!r}"
            if not _is_label(rows[0][column], record["column_label"]):
                yield f"{where}: the column is called {plain_markdown(rows[0][column])!r}"
            if not _shows(line[column], record):
                known = f"results.json has {record['mean']} ({record['status']})"
                yield f"{where}: it shows {plain_markdown(line[column])!r}, and {known}"
        yield from self._alike(name, f"table-{name}", name)
        beside = self._markdown.get(f"{name}{BESIDE}")
        compared = [record for record in records if record["difference"] is not None]
        if bool(compared) != bool(beside):
            yield f"report.md: it does not show the differences of table {name} from the published"
        elif beside:
            yield from self._differences(name, beside, compared)

    def _differences(
        self, name: str, rows: Sequence[Sequence[str]], compared: Sequence[Mapping[str, Any]]
    ) -> Iterator[str]:
        """Yield where differences from published numbers, and verdicts, are not those of results.json."""
        shown = Counter(plain_markdown(cell) for row in rows[1:] for cell in row[1:])
        shown.pop("–", None)
        left = [*shown.elements()]
        for record in compared:
            fitting = [text for text in left if _is_difference(text, record)]
            if not fitting:
                where = f"report.md: table {name}{BESIDE}, {record['row']} x {record['column']}"
                yield f"{where}: {record['difference']} {record['verdict']} of results.json is not there"
            else:
                left.remove(max(fitting, key=len))  # 0.0 is shown as 0, too, where others have few digits
        if left:
            yield f"report.md: table {name}{BESIDE} shows {left[0]!r}, which results.json has not"
        latex = sorted((self.folder / "tables").glob("*.tex"))
        file = next((path for path in latex if path.stem.startswith(f"{name}-published")), None)
        yield from self._alike(f"{name}{BESIDE}", f"beside-{name}", file.stem if file else f"{name}-published")

    def _alike(self, name: str, page: str, file: str) -> Iterator[str]:
        """Yield the cells of a table that the page or LaTeX writes otherwise than Markdown."""
        ours = [[plain_markdown(cell) for cell in row] for row in self._markdown[name]]
        others = {
            "report.html": self._page.tables.get(page, []),
            f"tables/{file}.tex": latex_rows(self._text(f"tables/{file}.tex")),
        }
        for written, theirs in others.items():
            for row, column in unlike(ours, theirs):
                where = f"{ours[row][0]} x {ours[0][column]}" if (row, column) != (0, 0) else "all of it"
                yield f"{written}: {name}, {where}: it is not what report.md shows"

    def _sorted(self) -> Iterator[str]:
        """Yield the cells that a page sorts by another number than it shows."""
        for name, rows in self._page.tables.items():
            for row, values in zip(rows, self._page.values[name], strict=True):
                for cell, value in zip(row, values, strict=True):
                    if value is not None and not _rounds(cell, value):
                        yield f"report.html: {name}, {row[0]}: it shows {cell!r}, and sorts it as {value}"

    def _claims(self) -> Iterator[str]:
        """Yield where the verdicts of claims are not those of results.json."""
        told = {one["id"]: one["verdict"] for one in self.results["claims"]}
        shown = {plain_markdown(row[0]): plain_markdown(row[1]) for row in self._markdown.get("Claims", ())[1:]}
        if shown != told:
            yield f"report.md: the verdicts of {_differing(shown, told)} are not those of results.json"
        page = {row[0]: row[1] for row in self._page.tables.get("claims", ())[1:]}
        if page != told:
            yield f"report.html: the verdicts of {_differing(page, told)} are not those of results.json"
        for one in self.results["claims"]:
            for value in one["values"]:
                if value["n"] and not self._claimed(value):
                    where = f"results.json: claim {one['id']}: {value['metric']}"
                    yield f"{where} {value['mean']} is the mean of no cells"

    def _claimed(self, value: Mapping[str, Any]) -> bool:
        name = value["metric"]
        known = [values for (metric, *_), several in self._means.items() if metric == name for values in several]
        if name.startswith("cost."):
            known = costs_over_seeds(self._text("costs.csv"), self.results["cells"], name)
        return any(_is_mean(value, values) for values in known)

    def _numbers(self) -> Iterator[str]:
        """Yield the numbers of Markdown, in text as in tables, that neither the page nor a drawing has."""
        links = r"\]\(<[^>]*>\)|!\[[^\]]*\]\([^)]*\)"
        written = numbers(re.sub(links, " ", plain_markdown(self._text("report.md"))))
        known = {*numbers(" ".join(self._page.text))}
        for path in sorted((self.folder / "figures").glob("*.csv")):
            known.update(numbers(self._text(f"figures/{path.name}").replace(",", " ")))
        if lacking := [one for one in dict.fromkeys(written) if one not in known]:
            yield f"report.md: it has numbers that report.html has not: {', '.join(lacking[:SHOWN])}"


def _is_mean(record: Mapping[str, Any], values: Sequence[float]) -> bool:
    found = summary(values)
    pairs = [(record["mean"], found.mean), (record["std"], found.std)]
    return record["n"] == len(values) and all(_close(*pair) for pair in pairs)


def _is_summary(record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether an average or a rank follows from the columns of its metric."""
    alike = ("value", "kind")
    columns: dict[str, dict[str, float]] = {}
    for one in records:
        if one["of"] == "cells" and all(one[key] == record[key] for key in alike) and one["n"]:
            value = columns.setdefault(one["column"], {})
            if not isnan(float(one["mean"])):
                value[one["row"]] = float(one["mean"])
    values = [column.get(record["row"], nan) for column in columns.values()]
    if record["of"] == "average":
        positive = all(value > 0 for value in values)
        return _close(record["mean"], fmean(values)) or (positive and _close(record["mean"], geometric_mean(values)))
    whole = set.intersection(*({*column} for column in columns.values()))
    below = [{row: value for row, value in column.items() if row in whole} for column in columns.values()]
    ranks = [fmean(_rank(column, record["row"], way) for column in below) for way in (1, -1)]
    return any(_close(record["mean"], rank) for rank in ranks)


def _rank(column: Mapping[str, float], row: str, way: int) -> float:
    """Return the place of a row in a column, 1 for the best; ties share the mean of theirs."""
    values = [way * value for value in column.values()]
    own = way * column[row]
    return sum(value > own for value in values) + (1 + values.count(own)) / 2


def _close(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(float(one), float(other), rel_tol=CLOSE, abs_tol=1e-300) or str(float(one)) == str(float(other))


def _is_label(shown: str, label: str) -> bool:
    return letters(plain_markdown(shown)) == letters(label)


def _shows(cell: str, record: Mapping[str, Any]) -> bool:
    """Return whether a cell of Markdown shows a number of results.json, in bold if it should, and the published."""
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
    found = SHOWN_NUMBER.fullmatch(CHANGE.sub("", text).strip())
    return bool(found) and _fits(found, record["mean"], record["std"], [record["low"], record["high"]])  # type: ignore[arg-type]


def _fits(found: re.Match[str], mean: Any, std: Any, ends: Sequence[Any] = ()) -> bool:
    """Return whether a number, its deviation and the ends of its interval are shown as they are, if they are."""
    pairs = [(found[1], mean), (found[2], std), *zip([found[3], found[4]], ends, strict=False)]
    return all(text is None or (value is not None and _rounds(text, value)) for text, value in pairs)


def _rounds(text: str, value: Any) -> bool:
    """Return whether a text begins with a number, rounded to as many digits as it shows."""
    try:
        known = float(value)
    except ValueError:
        return letters(text).startswith(letters(str(value)))
    word = re.match(r"[+−-]?[\d.,]+(?:e[+-]?\d+)?|–|[+−]?∞", text.strip())
    if not word:
        return False
    shown = word[0].replace(",", "").lstrip("+")
    digits = len(shown.partition("e")[0].partition(".")[2])
    return rounded(known, digits) == shown or _close(known, _number(shown))


def _number(text: str) -> float | None:
    try:
        return float(text.replace("−", "-"))
    except ValueError:
        return None


def _is_difference(text: str, record: Mapping[str, Any]) -> bool:
    number, _, verdict = text.partition(" (")[0].partition(" ")
    told = record["verdict"] if record["verdict"] != "not comparable" else ""
    return verdict == told and _rounds(number, record["difference"])


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    return ", ".join(name for name in sorted({**one, **other}) if one.get(name) != other.get(name))
