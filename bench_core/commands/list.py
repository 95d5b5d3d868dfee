"""`bench list [KIND]`"""

from __future__ import annotations

from collections.abc import Mapping

import click

from bench_core.commands import options
from bench_core.registry import installed, kinds, parts
from bench_core.terminal import say, to_json


@click.command()
@click.argument("kind", required=False)
@options.as_json
def command(kind: str | None, as_json: bool) -> int:
    """List installed parts, all or of a kind such as model or decoder, and plugins that could not be loaded."""
    from bench_core.extras import remedy

    rows = [
        {
            "kind": one,
            "name": name,
            "distribution": f"{part.distribution} {part.version}",
            "what": _first_line(part.config),
            "missing": remedy(part),
        }
        for one in (kinds() if kind is None else [kind.removesuffix("s")])
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
