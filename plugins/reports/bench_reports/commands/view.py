"""Show all runs and reports of a folder on one page."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options
from bench_core.terminal import counted, say

if TYPE_CHECKING:
    from bench_reports.view.catalog import Catalog


MANY = 20  # runs, which take more than a moment to read


@click.command()
@click.argument("folder", metavar="[DIR]", type=options.FOLDER, default=".")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine [default: any free one]."
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--out", type=options.FOLDER, help="Write the page into this folder, and serve nothing.")
def command(folder: Path, port: int, no_open: bool, out: Path | None) -> None:
    """Show all runs and reports in DIR and below on one page: filter, compare cells of any runs, read outputs.

    The page loads nothing from anywhere. It is served to this machine alone until Ctrl-C, and is up to date whenever
    it is loaded; with --out it is a file that can be mailed, beside copies of the reports.
    """
    from bench_core.errors import SuiteError
    from bench_reports.view.catalog import Catalog
    from bench_reports.view.finding import find

    if not folder.is_dir():
        raise SuiteError(f"{folder} is no folder. Name one that `bench run` wrote into, such as the one of runs/.")
    number = len(find(folder).runs)
    if number > MANY:
        say(f"reading {counted(number, 'run')}", err=True)
    catalog = Catalog(folder)
    if out is not None:
        from bench_reports.view.writing import write

        say(str(write(catalog, out)))
    else:
        _serve(catalog, port, no_open)


def _serve(catalog: Catalog, port: int, no_open: bool) -> None:
    """Serve the page until the user interrupts."""
    from bench_reports.view.serving import Server

    catalog.page()
    with Server(catalog, port) as server:
        damaged = sum(bool(one.problem) for one in catalog.entries)
        known = counted(len(catalog.entries), "run")
        if any(one.kind != "run" for one in catalog.entries):
            known = f"{len(catalog.entries):,} runs and reports"
        say(f"{known} {f'({damaged} cannot be read) ' if damaged else ''}at")
        say(f"  {server.address}")
        say("Ctrl-C ends this.")
        if not no_open and _has_screen():
            webbrowser.open_new_tab(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("")


def _has_screen() -> bool:
    """Return whether a browser would have a window; one in the terminal cannot show the page."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
