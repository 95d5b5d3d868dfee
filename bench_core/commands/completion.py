"""Shell completion of runs, cells, profiles and parts; no candidates if a file cannot be read."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bench_core.errors import BenchError


def complete(kind: str, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the candidates that begin with `incomplete`; if there are none, let the shell complete paths."""
    candidates = {"run": _runs, "cell": _cells, "profile": _profiles, "part": _parts}[kind]
    try:
        words = [word for word in candidates(context, incomplete) if word.startswith(incomplete)]
    except (BenchError, OSError):
        words = []
    is_path = isinstance(parameter.type, click.Path) and not words
    return [CompletionItem(incomplete, type="dir")] if is_path else [CompletionItem(word) for word in words]


def _runs(context: click.Context, incomplete: str) -> list[str]:
    folder = Path(context.params.get("runs") or "runs")
    return sorted(path.parent.as_posix() for path in folder.glob("*/cells.jsonl"))


def _cells(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return filters such as `model=lstm` for the given run or suite; after a comma, only filters on other axes."""
    previous = incomplete.rpartition(",")[0]
    used = {word.partition("=")[0] for word in previous.split(",")}
    names = {f"{axis}={name}": None for cell in _axes(context) for axis, name in cell.items() if axis not in used}
    return (f"{previous},{name}" if previous else name for name in names)


def _axes(context: click.Context) -> Iterable[Mapping[str, Any]]:
    if run := next(_paths(context, "run"), None):
        from bench_core.runs.results import read_run

        return [cell.cell for cell in read_run(run).cells]
    if suite := next(_paths(context, "suite"), None):
        from bench_core.suites.cells import cells_of
        from bench_core.suites.load import load

        return [cell.axes for cell in cells_of(load(suite, context.params.get("profile")))]
    return []


def _paths(context: click.Context, *names: str) -> Iterator[Path]:
    """Yield the arguments `names` as paths; click leaves them in `args` if the last option has no value yet."""
    for name in names:
        if any(parameter.name == name for parameter in context.command.params):
            given = context.params.get(name) or context.args
            yield from map(Path, given if isinstance(given, list | tuple) else [given])


def _profiles(context: click.Context, incomplete: str) -> Iterator[str]:
    from bench_core.suites.yaml_source import read

    for path in _paths(context, "suites", "suite"):
        profiles = read(path).data.get("profiles")
        yield from map(str, profiles if isinstance(profiles, dict) else ())


def _parts(context: click.Context, incomplete: str) -> list[str]:
    from bench_core.registry import kinds, parts

    words = context.params.get("words") or ()
    if words and words[0] in kinds():
        return list(parts(words[0]))
    return [*kinds(), *(name for kind in kinds() for name in parts(kind))]
