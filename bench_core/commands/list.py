"""`bench list [KIND]`"""

from __future__ import annotations

from collections.abc import Mapping

import click

from bench_core.commands import options
from bench_core.registry import KINDS, installed, parts
from bench_core.terminal import say, to_json


@click.command()
@click.argument("kind", type=click.Choice([*KINDS, *(f"{kind}s" for kind in KINDS)]), required=False)
@options.as_json
def command(kind: str | None, as_json: bool) -> int:
    """List the installed parts of one kind or of all, and plugins that could not be loaded."""
    from bench_core.extras import remedy

    chosen = [one for one in KINDS if kind is None or kind.removesuffix("s") == one]
    rows = [
        {
            "kind": one,
            "name": name,
            "distribution": f"{part.distribution} {part.version}",
            "what": _first_line(part.config),
            "missing": remedy(part),
        }
        for one in chosen
        for name, part in parts(one).items()
    ]
    broken = installed().broken
    if as_json:
        say(to_json({"parts": rows, "broken": broken}))
    else:
        from tabulate import tabulate

        shown = [{key: row[key] for key in ("kind", "name", "distribution")} | {"what": _what(row)} for row in rows]
        say(tabulate(shown, headers="keys") if rows else "no parts are installed; see Install in the README.")
        for distribution, reason in broken.items():
            say(f"broken: {distribution}: {reason}", err=True)
    return 0


def _what(row: Mapping[str, str | None]) -> str | None:
    return f"not installed: {row['missing']}" if row["missing"] else row["what"]


def _first_line(config: type) -> str:
    return (config.__doc__ or "").strip().partition("\n")[0]
