"""Show a cell of a run with its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json

if TYPE_CHECKING:
    from bench_core.data import Prediction
    from bench_core.runs.results import CellResult, Run, Score
    from bench_core.storage.store import Store

OUTPUTS = 3

Intervals: TypeAlias = Mapping[str, "tuple[float, float] | None"]  # by metric


@click.command()
@options.run
@click.argument("cell", nargs=-1, required=True, shell_complete=options.complete_cells)
@options.store
@options.as_json
def command(run: Path, cell: tuple[str, ...], store: Store, as_json: bool) -> None:
    """Show a CELL of RUN, such as `model=lstm,decoder=greedy,seed=0`, and its first outputs.

    Axes with a single name can be omitted, and names can be abbreviated. 'lstm/greedy/seed 0' also names a cell.
    """
    from bench_core.runs.results import read_run
    from bench_core.runs.selecting import only_one
    from bench_reports.content.sorting import ordered

    whole = read_run(run)
    match = only_one(ordered(whole), lambda result: result.cell, ",".join(cell))
    outputs, between = first_outputs(store, match, OUTPUTS), intervals(whole, match)
    say(to_json(plain(match, outputs, between), 1) if as_json else text(match, outputs, between))


def intervals(run: Run, cell: CellResult) -> Intervals:
    """Return the 95 % interval of each number over examples, for this training run; None for numbers without one."""
    from bench_reports.statistics.measurements import interval_of, measured

    by_metric: dict[str, tuple[float, float] | None] = {}
    for name, number in cell.numbers.items():
        measurement = "" if number.value is None else measured(run, [cell], name)
        by_metric[name] = None if isinstance(measurement, str) else interval_of(measurement)
    return by_metric


def first_outputs(store: Store, cell: CellResult, count: int) -> Sequence[Prediction]:
    """Return the first outputs of a cell; empty if they are not in the store."""
    from bench_core.storage.predictions import read_predictions

    key = cell.artifacts.get("decode", "")
    if not key or not store.has("decode", key):
        return []
    return [*islice(read_predictions(store.get("decode", key).file("predictions.jsonl.gz")), count)]


def plain(cell: CellResult, outputs: Sequence[Prediction], between: Intervals) -> Any:
    """Return a cell, the intervals of its numbers and its outputs as JSON data."""
    from dataclasses import asdict

    from bench_core.runs.results import as_json

    return as_json({**asdict(cell), "intervals": between, "outputs": [asdict(output) for output in outputs]})


def text(cell: CellResult, outputs: Sequence[Prediction], between: Intervals) -> str:
    """Return a cell, the intervals of its numbers and its outputs as text for a terminal."""
    from tabulate import tabulate

    from bench_core.runs.selecting import cell_name
    from bench_core.terminal import visible

    lines = [visible(cell_name(cell.cell)), f"{cell.status}: {visible(cell.reason)}" if cell.reason else cell.status]
    if cell.numbers:
        headings = ["metric", "value", "95 % interval", "unit", "examples", "kind", "signature"]
        rows = [[name, *_words(number, between[name])] for name, number in cell.numbers.items()]
        lines += ["", tabulate(rows, headings, disable_numparse=True)]
        lines += [f"{name}: {visible(number.reason)}" for name, number in cell.numbers.items() if number.reason]
    if cell.artifacts:
        lines += ["", tabulate(cell.artifacts.items(), ["artifact", "key"], disable_numparse=True)]
    for output in outputs:
        lines += ["", *(f"{name}: {visible(words)}" for name, words in _texts(output).items())]
    return "\n".join(lines)


def _words(number: Score, interval: tuple[float, float] | None) -> list[str]:
    from bench_reports.content.numbers import rounded

    value = "–" if number.value is None else rounded(number.value, number.digits)
    between = [rounded(end, number.digits) for end in interval or ()]
    ends = f"[{', '.join(between)}]" if between else ""
    return [value, ends, number.unit, f"{number.examples:,}", number.kind, number.signature]


def _texts(output: Prediction) -> dict[str, str]:
    texts = {"prompt": output.prompt, "output": output.texts[0] if output.texts else ""}
    return {"example": str(output.id), **texts, **({"reference": output.references[0]} if output.references else {})}
