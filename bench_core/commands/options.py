"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, nan
from pathlib import Path
from typing import Any, ClassVar

import click

Decorated = Callable[..., Any]


class Duration(click.ParamType[float]):
    """A length of time, in seconds: 90s, 9m, 1.5h, or a number of seconds."""

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
            self.fail(f"{text!r} is no length of time, such as 90s, 9m or 1.5h.", param, ctx)
        return seconds


DURATION = Duration()

data = click.option("--data", type=click.Path(path_type=Path), help="Folder of corpora [default: $BENCH_DATA].")
store = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=Path(".bench/store"),
    show_default=True,
    help="Folder of artifacts.",
)
runs = click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def of_suite(function: Decorated) -> Decorated:
    """Add the arguments that choose a suite and how it is changed."""
    return changes(click.argument("suite", type=click.Path(path_type=Path))(function))


def changes(function: Decorated) -> Decorated:
    """Add the options that change a suite."""
    for option in (
        click.option("--seeds", type=click.IntRange(min=1), help="Number of seeds."),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="Change a value, such as models.lstm.hidden=64.",
        ),
        click.option("--profile", help="A profile of the suite."),
    ):
        function = option(function)
    return function
