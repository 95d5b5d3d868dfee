"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorated = Callable[..., Any]

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
