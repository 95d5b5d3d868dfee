"""Default tables: all results of a suite without tables, and metrics added by `--set`."""

from collections.abc import Collection, Sequence
from math import prod

from bench_core.runs.results import Run
from bench_core.suites.axes import Axis
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Table

MAX_COLUMNS = 8  #: with more columns, tasks, splits and hardware become row labels


def tables_of(run: Run) -> list[Table]:
    """Return the tables of a suite, with default tables for metrics that no table shows."""
    declared = language(run).tables
    if not declared:
        return [_table(run, "results", "Results", [*run.suite.metrics])] if run.suite.metrics else []
    shown = {metric for table in declared if table.of == "results" for metric in table.values}
    added = [metric for metric in run.suite.metrics if metric not in shown and _is_set(run, metric)]
    return [*declared, *([_table(run, "added", "Metrics added by --set", added)] if added else [])]


def _is_set(run: Run, metric: str) -> bool:
    """Return whether a metric or one of its settings was set on the command line."""
    keys = map(str, run.info.get("changes") or ())
    return any(key == "metrics" or f"{key}.".startswith(f"metrics.{metric}.") for key in keys)


def _table(run: Run, name: str, caption: str, metrics: Sequence[str]) -> Table:
    """Return a table of metrics by all axes on which cells differ, with models and decoders as rows."""
    several: list[Axis] = [axis for axis in ("task", "split", "hardware") if len(run.names[axis]) > 1]
    wide = prod([len(metrics), *(len(run.names[axis]) for axis in several)]) > MAX_COLUMNS
    rows: list[Axis] = [axis for axis in ("model", "decoder") if len(run.names[axis]) > 1] or ["model"]
    axes = {"rows": [*several, *rows], "columns": []} if wide else {"rows": rows, "columns": several}
    ids = [*(table.id for table in language(run).tables), *(figure.id for figure in language(run).figures)]
    return Table.model_validate({"id": _free(name, ids), "caption": caption, **axes, "values": metrics})


def _free(name: str, ids: Collection[str]) -> str:
    """Return an id that no table or figure has."""
    return name if name not in ids else _free(f"{name}-all", ids)
