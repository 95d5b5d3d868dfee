"""Write the tables of a report as CSV, and the whole report as JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench_core.runs.results import FORMAT, Run, as_json, cell_as_json
from bench_core.suites.cells import join
from bench_core.terminal import visible
from bench_reports.content.choices import choices
from bench_reports.content.environments import environments
from bench_reports.content.grid import Column, Grid, GridEntry, Row
from bench_reports.content.judgements import Judgement
from bench_reports.content.sorting import ordered
from bench_reports.statistics.intervals import rounded
from plain_files import to_csv


def records(grid: Grid) -> list[dict[str, Any]]:
    """Return a flat mapping for each row, column and value of a table, unrounded except for p-values."""
    return [
        _record(row, column, entry)
        for row, entries in zip(grid.rows, grid.entries, strict=True)
        for column, entry in zip(grid.columns, entries, strict=True)
    ]


def _record(row: Row, column: Column, entry: GridEntry) -> dict[str, Any]:
    summary, printed, compared = entry.summary, entry.published, entry.comparison
    low, high = entry.interval or (None, None)
    return {
        "row": row.label, "column": column.label if column.names is None else join(*column.names), "of": column.of,
        "row_label": visible(", ".join(row.shown)), "column_label": visible(", ".join(column.shown)),
        "value": column.value, "kind": column.number.kind, "signature": column.number.signature,
        "unit": column.number.unit, "status": entry.status, "mean": summary.mean if summary else entry.text or None,
        "std": summary.std if summary else None, "n": summary.n if summary else 0, "seeds": entry.seeds, "low": low,
        "high": high, "error": entry.error or None, "best": entry.best, "p": rounded(entry.p), "change": entry.change,
        "published_mean": printed.mean if printed else None, "published_std": printed.std if printed else None,
        "difference": compared.difference if compared else None, "verdict": compared.verdict if compared else "",
        "reason": "; ".join(entry.reasons),
    }  # fmt: skip


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with the keys of the first row as header."""
    return to_csv(rows, list(rows[0]) if rows else [])


def results_text(run: Run, filled: Iterable[Grid], judged: Iterable[Judgement]) -> str:
    """Return the whole report as JSON, one cell per line."""
    head = {key: run.info.get(key) for key in ("label", "suite", "profile", "title", "source", "tasks", "models")}
    data = as_json(
        {
            "format": FORMAT,
            **head,
            "environments": environments(run),
            "tables": {grid.table.id: records(grid) for grid in filled},
            "claims": [judgement.record() for judgement in judged],
            "note": run.suite.note,
            "choices": [choice.record() for choice in choices(run)],
        }
    )
    lines = (json.dumps(as_json(cell_as_json(result)), sort_keys=True, allow_nan=False) for result in ordered(run))
    cells = ",\n".join(f"  {line}" for line in lines)
    rest = json.dumps(data, sort_keys=True, indent=1, allow_nan=False).removeprefix("{\n")
    return f'{{\n "cells": [\n{cells}\n ],\n{rest}\n'
