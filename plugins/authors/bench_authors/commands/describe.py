"""Show what a part is and its settings."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from shutil import get_terminal_size
from typing import Any

import click

from bench_authors.settings_words import Setting, about, groups, settings
from bench_core.commands import options
from bench_core.data import Source
from bench_core.errors import SuiteError
from bench_core.registry import Part, kinds, part, parts, suggestion
from bench_core.terminal import say, to_json

FACTS = ("capabilities", "needs", "sources", "source", "likelihoods", "asks about")
LEAST, MOST = 80, 160  # columns of the table
MARKUP = re.compile(r"\[([^]]+)\]\(#[^)]*\)|`")  # links and code of Markdown


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[KIND] NAME")
@options.as_json
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Show a part, such as `model rnn-lm`: what it is, and the meaning, limits and default of every setting.

    KIND can be left out if only one part has that name.
    """
    if len(words) > 2:
        raise SuiteError(
            f"expected a kind and a name, found {' '.join(words)!r}. Such as: bench describe model rnn-lm."
        )
    found = part(words[0].removesuffix("s"), words[1]) if len(words) == 2 else _only(words[0])
    if as_json:
        say(to_json(_about(found), default=str))
    else:
        _print(found)


def _only(name: str) -> Part:
    """Return the only part of any kind with this name."""
    known = {kind: parts(kind) for kind in kinds()}
    several = [kind for kind, named in known.items() if any(one.is_called(name) for one in named.values())]
    if len(several) > 1:
        ways = " or ".join(f"`bench describe {kind} {name}`" for kind in several)
        raise SuiteError(f"{' and '.join(several)} parts are called {name!r}. Say which: {ways}.")
    if not several:
        names = list(dict.fromkeys(one for named in known.values() for one in named))
        raise SuiteError(f"no part is called {name!r}. {suggestion(name, names, 'Installed')}")
    return part(several[0], name)


def _about(found: Part) -> dict[str, Any]:
    """Return all that is known of a part as data."""
    config: Any = found.config
    known: dict[str, Any] = {"kind": found.kind, "name": config.name, "distribution": found.distribution}
    known["what"] = about(config)
    if found.kind == "model":
        known["capabilities"] = sorted(one.__name__ for one in config.capabilities)
        known["sources"] = sorted(config.sources)
        known["likelihoods"] = [f"{name} ({kind})" for name, kind in config.likelihoods.items()]
    if found.kind in ("decoder", "metric"):
        known["needs"] = [config.needs.__name__]
    if found.kind == "probe":
        known["asks about"] = ["a model under each decoder" if config.with_decoder else "a model"]
    if found.kind == "task":
        known["source"] = [config.source if isinstance(config.source, Source) else "by its settings"]
    known["settings"] = [_row(one) for one in settings(config)]
    known["inside"] = [
        {**asdict(one), "shape": one.shape, "settings": [_row(each) for each in one.settings]}
        for one in groups(config)
    ]
    return known


def _row(one: Setting) -> dict[str, str]:
    return {"setting": one.name, "type": _plain(one.type), "default": one.default, "meaning": _plain(one.meaning)}


def _plain(text: str) -> str:
    """Return text without links and backticks."""
    return MARKUP.sub(lambda found: found[1] or "", text)


def _print(found: Part) -> None:
    from bench_core.suites.extras import remedy

    known = _about(found)
    say(f"{found.kind} {known['name']}, from {found.distribution} {found.version}\n\n{known['what']}\n")
    if command := remedy(found):
        say(f"not installed: {command}")
    for key in FACTS:
        if known.get(key):
            say(f"{key}: {', '.join(known[key])}")
    say(_table(known["settings"]) if known["settings"] else "No settings.")
    for one in known["inside"]:
        say(f"\n{one['shape']}\n{one['about']}")
        if one["settings"]:
            say(_table(one["settings"]))


def _table(rows: Sequence[dict[str, str]]) -> str:
    """Return settings as a table that fits the terminal: the meaning has what the others leave."""
    from tabulate import tabulate

    width = min(max(get_terminal_size((120, 24)).columns, LEAST), MOST)
    used = [min(30, max(len(line) for line in [key, *(row[key] for row in rows)])) for key in ("setting", "type")]
    default = min(24, max(len(row["default"]) for row in [{"default": "default"}, *rows]))
    found: str = tabulate(rows, headers="keys", maxcolwidths=[None, 30, 24, max(20, width - sum(used) - default - 6)])
    return found
