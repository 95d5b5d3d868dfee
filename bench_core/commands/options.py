"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

if TYPE_CHECKING:
    from bench_core.storage.store import Store
    from bench_core.suites.suite import Suite

Decorated = Callable[..., Any]


class Duration(click.ParamType[float]):
    """A duration, such as 90s, 9m or 1.5h, or a number of seconds."""

    name = "DURATION"
    units: ClassVar[Mapping[str, float]] = {"s": 1.0, "m": 60.0, "h": 3600.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        number, unit = (text[:-1], text[-1]) if text[-1:] in self.units else (text, "s")
        try:
            seconds = float(number) * self.units[unit]
        except ValueError:
            seconds = nan
        if not 0 <= seconds < inf:
            self.fail(f"{text!r} is not a duration, such as 90s, 9m or 1.5h.", param, ctx)
        return seconds


DURATION = Duration()

FOLDER = click.Path(path_type=Path)


def _completing(kind: str) -> Callable[..., Any]:
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> Any:
        from bench_core.commands.completion import complete

        return complete(kind, context, parameter, incomplete)

    return complete


complete_runs, complete_cells = _completing("run"), _completing("cell")
complete_profiles, complete_parts = _completing("profile"), _completing("part")

run = click.argument("run", type=FOLDER, shell_complete=complete_runs)


def _data(ctx: click.Context, option: click.Parameter, folder: Path | None) -> Path:
    from bench_core.files import data_folder

    return data_folder(folder)


def _store(ctx: click.Context, option: click.Parameter, folder: Path) -> Store:
    from bench_core.storage.store import Store

    return Store(folder)


data = click.option("--data", type=FOLDER, callback=_data, help="Folder of corpora [default: $BENCH_DATA].")
store = click.option(
    "--store", type=FOLDER, default=".bench/store", show_default=True, callback=_store, help="Folder of artifacts."
)
runs = click.option("--runs", type=FOLDER, default="runs", show_default=True, help="Folder of runs.")
out = click.option("--out", type=FOLDER, default="reports", show_default=True, help="Folder of reports.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
set_option = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a setting, such as models.lstm.hidden=64."
)


def changes(function: Decorated) -> Decorated:
    """Add options that change a suite."""
    profile = click.option("--profile", help="Profile of the suite.", shell_complete=complete_profiles)
    seeds = click.option("--seeds", type=click.IntRange(min=1), help="Number of seeds.")
    return profile(set_option(seeds(function)))


only = click.option(
    "--only",
    shell_complete=complete_cells,
    multiple=True,
    metavar="CELL",
    help="Select cells, such as model=lstm,seed=0 or `lstm/greedy`; repeated filters must all match.",
)


def of_suite(function: Decorated) -> Decorated:
    """Add the argument SUITE and options that change it; the function receives the loaded suite."""

    @wraps(function)
    def command(
        suite: Path, profile: str | None, settings: Sequence[str], seeds: int | None, limit: int | None, **others: Any
    ) -> Any:
        from bench_core.suites.load import load
        from bench_core.terminal import say

        loaded = load(suite, profile, settings, seeds)
        if limit is not None and (lowered := _lowered_limits(loaded, limit)):
            loaded = load(suite, profile, [*settings, *lowered], seeds)
        for note in () if others.get("quiet") else loaded.notes:
            say(f"note: {note}", err=True)
        return function(loaded, **others)

    limit = click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Decode and score at most N examples of each split."
    )
    return changes(limit(click.argument("suite", type=FOLDER)(command)))


def _lowered_limits(suite: Suite, limit: int) -> list[str]:
    """Return the values of `--set` that lower the limits of a suite to `limit` examples."""
    limits = {"examples": suite.limits.examples, "scored": suite.limits.scored}
    return [f"limits.{key}={limit}" for key, number in limits.items() if number is None or number > limit]
