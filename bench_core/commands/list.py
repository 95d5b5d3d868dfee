"""`bench list [KIND]`"""

from collections.abc import Mapping

import click

from bench_core.commands import options
from bench_core.errors import SuiteError
from bench_core.registry import installed, kinds, parts, suggestion
from bench_core.terminal import say, to_json


@click.command()
@click.argument("kind", required=False)
@options.as_json
def command(kind: str | None, as_json: bool) -> int:
    """List installed parts, optionally of one kind such as model or decoder, and plugins that failed to load."""
    from bench_core.suites.extras import remedy

    rows = [
        {
            "kind": part_kind,
            "name": name,
            "distribution": f"{part.distribution} {part.version}",
            "what": (part.config.__doc__ or "").strip().partition("\n")[0],
            "missing": remedy(part),
        }
        for part_kind in (kinds() if kind is None else [_kind(kind)])
        for name, part in parts(part_kind).items()
    ]
    broken = installed().broken
    if as_json:
        say(to_json({"parts": rows, "broken": broken}))
    else:
        from tabulate import tabulate

        for distribution, reason in broken.items():
            say(f"broken: {distribution}: {reason}", err=True)
        cells = [{key: row[key] for key in ("kind", "name", "distribution")} | {"what": _what(row)} for row in rows]
        say(tabulate(cells, headers="keys") if rows else "no parts are installed; see Install in the README.")
    return 0


def _kind(word: str) -> str:
    """Return the kind of part that a word names, singular or plural; otherwise raise SuiteError with a suggestion."""
    known = kinds()
    kind = word if word in known else word.removesuffix("s")
    if kind in known:
        return kind
    match = [other for other in known if any(part.is_called(word) for part in parts(other).values())]
    hint = f"{word!r} is a {match[0]}; see `bench describe {match[0]} {word}`." if match else suggestion(kind, known)
    raise SuiteError(f"no kind of part is called {word!r}. {hint}")


def _what(row: Mapping[str, str | None]) -> str | None:
    return f"not installed: {row['missing']}" if row["missing"] else row["what"]
