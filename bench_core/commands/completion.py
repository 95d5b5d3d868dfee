"""Shell completion of runs, cells, profiles and parts; without candidates where a file cannot be read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _completing(candidates: Callable[[click.Context, str], Iterable[str]]) -> Complete:
    @wraps(candidates)
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from bench_core.errors import BenchError

        try:
            return [word for word in candidates(context, incomplete) if word.startswith(incomplete)]
        except (BenchError, OSError):
            return []

    return complete


@_completing
def runs(context: click.Context, incomplete: str) -> Iterator[str]:
    """Yield the folders of runs."""
    folder = Path(context.params.get("runs") or "runs")
    yield from sorted(path.parent.as_posix() for path in folder.glob("*/cells.jsonl"))


@_completing
def cells(context: click.Context, incomplete: str) -> Iterator[str]:
    """Yield what selects cells of the run or suite on the line: `model=lstm`, after a comma another axis."""
    complete, _, _ = incomplete.rpartition(",")
    start = f"{complete}," if complete else ""
    used = {word.partition("=")[0] for word in complete.split(",")}
    names: dict[str, None] = {}
    for cell in _cells(context):
        names |= {f"{start}{axis}={name}": None for axis, name in cell.items() if axis not in used}
    yield from names


def _cells(context: click.Context) -> Iterable[Mapping[str, Any]]:
    run, suite = context.params.get("run"), context.params.get("suite")
    if run:
        from bench_core.runs.results import read_run

        path = Path(run) if Path(run).is_dir() else Path(context.params.get("runs") or "runs") / run
        return [cell.cell for cell in read_run(path).cells]
    if suite:
        from bench_core.suites.cells import cells_of
        from bench_core.suites.load import load

        return [cell.axes for cell in cells_of(load(Path(suite), context.params.get("profile")))]
    return []


@_completing
def profiles(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return the profiles of the suite on the line."""
    from bench_core.suites.yaml_source import read

    suites = context.params.get("suites") or [path for path in [context.params.get("suite")] if path]
    return [name for path in suites for name in read(Path(path)).data.get("profiles") or ()]


@_completing
def parts(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return kinds of parts, and the names of all or of the kind on the line."""
    from bench_core.registry import kinds
    from bench_core.registry import parts as parts_of

    words = context.params.get("words") or ()
    if words and words[0] in kinds():
        return list(parts_of(words[0]))
    return [*kinds(), *(name for kind in kinds() for name in parts_of(kind))]
