"""Show all runs and reports of a folder on one page."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import count_of, say

if TYPE_CHECKING:
    from bench_reports.view.catalog import Catalog


MAX_QUIET_RUNS = 20  # runs; reading more takes a noticeable time


@click.command()
@click.argument("folder", metavar="[DIR]", type=options.FOLDER, default=".")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine [default: any free port]."
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--out", type=options.FOLDER, help="Write the page to this folder instead of serving it.")
def command(folder: Path, port: int, no_open: bool, out: Path | None) -> None:
    """Show all runs and reports in DIR and below on one page: filter, compare cells of any runs, read outputs.

    The page needs no network. It is served to this machine only, until Ctrl-C, and is up to date whenever it is
    loaded; with --out, it is written as a single file, with copies of the reports.
    """
    from bench_core.errors import SuiteError
    from bench_reports.view.catalog import Catalog
    from bench_reports.view.finding import find

    if not folder.is_dir():
        raise SuiteError(f"{folder} is not a folder. Choose a folder that `bench run` wrote to, such as runs/.")
    number = len(find(folder).runs)
    if number > MAX_QUIET_RUNS:
        say(f"reading {count_of(number, 'run')}", err=True)
    catalog = Catalog(folder)
    if out is not None:
        from bench_reports.view.writing import write

        say(str(write(catalog, out)))
    else:
        _serve(catalog, port, no_open)


def _serve(catalog: Catalog, port: int, no_open: bool) -> None:
    """Serve the page until Ctrl-C."""
    from bench_reports.view.serving import Server

    catalog.page()
    with Server(catalog, port) as server:
        damaged = sum(bool(entry.problem) for entry in catalog.entries)
        total = count_of(len(catalog.entries), "run")
        if any(entry.kind != "run" for entry in catalog.entries):
            total = f"{len(catalog.entries):,} runs and reports"
        say(f"{total} {f'({damaged} cannot be read) ' if damaged else ''}at")
        say(f"  {server.address}")
        say("Press Ctrl-C to stop.")
        if not no_open and _has_screen():
            webbrowser.open_new_tab(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("")


def _has_screen() -> bool:
    """Return whether a graphical browser can open; terminal browsers cannot show the page."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
