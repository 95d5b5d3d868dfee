"""Check this machine: Python, torch, devices, disk, data."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json

MAX_COLUMN_WIDTH = 80  # in characters


@click.command()
@options.data
@options.as_json
def command(data: Path, as_json: bool) -> int:
    """Check this machine: Python, torch and its devices, plugins, disk, data."""
    rows = [{"what": what, "state": state, "found": result} for what, state, result in _findings(data)]
    if as_json:
        say(to_json(rows))
    else:
        from tabulate import tabulate

        say(tabulate(rows, headers="keys", maxcolwidths=[None, None, MAX_COLUMN_WIDTH]))
    return 1 if any(row["state"] == "broken" for row in rows) else 0


def _findings(data: Path) -> Iterator[tuple[str, str, str]]:
    version = platform.python_version()
    yield "Python", "ok" if sys.version_info >= (3, 11) else "broken", f"{version} (3.11 or newer is required)"
    yield from _torch()
    yield "processors", "ok", f"{os.cpu_count()}"
    yield from _plugins()
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield "disk", "ok" if free > 1 else "low", f"{free:.0f} GiB free in this folder"
    yield "data", "ok" if data.is_dir() else "none", f"{data}"


def _torch() -> Iterator[tuple[str, str, str]]:
    try:
        import torch
    except Exception as error:  # an installation can be broken in many ways
        yield "torch", "broken", f"{error}. Install it as described in the README."
        return
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    yield "torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads, devices: {', '.join(devices)}"


def _plugins() -> Iterator[tuple[str, str, str]]:
    from bench_core.registry import installed

    plugins = installed()
    names = ", ".join(sorted(f"{name} {version}" for name, version in plugins.origins.values()))
    yield "plugins", "ok" if names else "none", names or "none; see Install in the README"
    for distribution, reason in plugins.broken.items():
        yield f"plugin {distribution}", "broken", reason
