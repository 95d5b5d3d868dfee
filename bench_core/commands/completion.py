"""Shell completion of runs, cells, profiles and parts; without candidates where a file cannot be read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem


def _completes(candidates: Callable[[click.Context, str], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    @wraps(candidates)
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from bench_core.errors import BenchError

        try:
            words = [word for word in candidates(context, incomplete) if word.startswith(incomplete)]
        except (BenchError, OSError):
            words = []
        # without candidates, the shell completes the path of a run in another folder
        is_path = isinstance(parameter.type, click.Path) and not words
        return [CompletionItem(incomplete, type="dir")] if is_path else [CompletionItem(word) for word in words]

    return complete


@_completes
def complete_runs(context: click.Context, incomplete: str) -> list[str]:
    """Return the folders of runs."""
    folder = Path(context.params.get("runs") or "runs")
    return sorted(path.parent.as_posix() for path in folder.glob("*/cells.jsonl"))


@_completes
def complete_cells(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return selections such as `model=lstm` in the run or suite on the line; after a comma, of the other axes."""
    previous = incomplete.rpartition(",")[0]
    used = {word.partition("=")[0] for word in previous.split(",")}
    names = {f"{axis}={name}": None for cell in _cells(context) for axis, name in cell.items() if axis not in used}
    return (f"{previous},{name}" if previous else name for name in names)


def _cells(context: click.Context) -> Iterable[Mapping[str, Any]]:
    if run := next(_paths(context, "run"), None):
        from bench_core.runs.results import read_run

        return [cell.cell for cell in read_run(run).cells]
    if suite := next(_paths(context, "suite"), None):
        from bench_core.suites.cells import cells_of
        from bench_core.suites.load import load

        return [cell.axes for cell in cells_of(load(suite, context.params.get("profile")))]
    return []


def _paths(context: click.Context, *names: str) -> Iterator[Path]:
    """Yield the values of arguments; click leaves them in `args` where an option at the end still has no value."""
    for name in names:
        if any(parameter.name == name for parameter in context.command.params):
            given = context.params.get(name) or context.args
            yield from map(Path, given if isinstance(given, list | tuple) else [given])


@_completes
def complete_profiles(context: click.Context, incomplete: str) -> list[str]:
    """Return the profiles of the suites on the line."""
    from bench_core.suites.yaml_source import read

    return [name for path in _paths(context, "suites", "suite") for name in read(path).data.get("profiles") or ()]


@_completes
def complete_parts(context: click.Context, incomplete: str) -> list[str]:
    """Return the kinds of parts, and the names of all parts or of the kind on the line."""
    from bench_core.registry import kinds
    from bench_core.registry import parts as parts_of

    words = context.params.get("words") or ()
    if words and words[0] in kinds():
        return list(parts_of(words[0]))
    return [*kinds(), *(name for kind in kinds() for name in parts_of(kind))]
