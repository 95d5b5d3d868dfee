"""Compare two cells of a run: tests, lengths, outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json

if TYPE_CHECKING:
    from bench_core.runs.results import CellResult, Run
    from bench_core.storage.store import Store


class IncreasingLengths(click.ParamType[tuple[int, ...]]):
    """An increasing list of lengths, such as 10,20,40."""

    name = "LENGTHS"
    pattern: ClassVar[re.Pattern[str]] = re.compile(r"[1-9]\d{0,8}(,[1-9]\d{0,8})*")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        lengths = tuple(map(int, value.split(","))) if self.pattern.fullmatch(value) else ()
        if not lengths or [*lengths] != sorted(set(lengths)):
            self.fail(f"{value!r} is not an increasing list of lengths, such as 10,20,40.", param, ctx)
        return lengths


@click.command()
@options.run
@click.argument("a", shell_complete=options.complete_cells)
@click.argument("b", shell_complete=options.complete_cells)
@options.store
@click.option("--draws", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="Permutations.")
@click.option(
    "--buckets", type=IncreasingLengths(), help="Upper edges of reference-length buckets [default: quartiles]."
)
@click.option("--examples", type=click.IntRange(0), default=5, show_default=True, help="Examples to show.")
@click.option("--by", metavar="METRIC", help="Metric that ranks the examples [default: the first metric of outputs].")
@options.as_json
def command(
    run: Path,
    a: str,
    b: str,
    store: Store,
    draws: int,
    buckets: tuple[int, ...] | None,
    examples: int,
    by: str | None,
    as_json: bool,
) -> None:
    """Compare cells A and B of RUN, such as `model=lstm,decoder=greedy` and `model=lstm,decoder=beam`.

    Axes with a single name can be omitted, and names can be abbreviated; 'lstm/greedy' also names a cell. Without a
    seed, all seeds are compared.
    """
    from bench_core.runs.results import read_run
    from bench_reports.content.example_diff import StoredEvidence
    from bench_reports.diff.differences import difference, plain, text, with_examples

    whole = read_run(run)
    result = difference(whole, (seeds_of(whole, a), seeds_of(whole, b)), by)
    result = with_examples(result, StoredEvidence(store), draws, buckets or (), examples, by)
    say(to_json(plain(run, result), 1) if as_json else text(result, draws))


def seeds_of(run: Run, filters: str) -> list[CellResult]:
    """Return the seeds of the cell that matches `filters`; raise SuiteError if no cell or several cells match."""
    from bench_core.errors import SuiteError
    from bench_core.runs.selecting import chosen, names_on
    from bench_core.suites.axes import AXES
    from bench_reports.content.sorting import ordered

    cells = chosen(ordered(run), lambda result: result.cell, filters)
    several = {axis: names_on(cells, lambda result: result.cell, axis) for axis in AXES[:-1]}
    open_axes = [f"{axis} ({', '.join(names)})" for axis, names in several.items() if len(names) > 1]
    if open_axes:
        raise SuiteError(f"several cells match {filters!r}. Choose by {', '.join(open_axes)}.")
    return cells
