"""Describe a part and its settings."""

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

SUMMARY_KEYS = ("capabilities", "needs", "sources", "source", "likelihoods", "asks about")
MIN_WIDTH, MAX_WIDTH = 80, 160  # width of the table in characters
MARKUP = re.compile(r"\[([^]]+)\]\(#[^)]*\)|`")  # Markdown links and code


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[KIND] NAME", shell_complete=options.complete_parts)
@options.as_json
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Describe a part, such as `model rnn-lm`: its purpose, and the type, default and meaning of each setting.

    KIND can be omitted if only one part has that name.
    """
    if len(words) > 2:
        raise SuiteError(
            f"expected a kind and a name, found {' '.join(words)!r}. Example: bench describe model rnn-lm."
        )
    described = part(words[0].removesuffix("s"), words[1]) if len(words) == 2 else _part_called(words[0])
    if as_json:
        say(to_json(_about(described), default=str))
    else:
        _print(described)


def _part_called(name: str) -> Part:
    """Return the only part of any kind with this name."""
    known = {kind: parts(kind) for kind in kinds()}
    several = [
        kind for kind, named in known.items() if any(candidate.is_called(name) for candidate in named.values())
    ]
    if len(several) > 1:
        ways = " or ".join(f"`bench describe {kind} {name}`" for kind in several)
        raise SuiteError(f"{' and '.join(several)} parts are called {name!r}. Choose one: {ways}.")
    if not several:
        names = list(dict.fromkeys(installed for named in known.values() for installed in named))
        raise SuiteError(f"no part is called {name!r}. {suggestion(name, names, 'Installed')}")
    return part(several[0], name)


def _about(part: Part) -> dict[str, Any]:
    """Return the description of a part as data."""
    config: Any = part.config
    description: dict[str, Any] = {"kind": part.kind, "name": config.name, "distribution": part.distribution}
    description["what"] = about(config)
    if part.kind == "model":
        description["capabilities"] = sorted(capability.__name__ for capability in config.capabilities)
        description["sources"] = sorted(config.sources)
        description["likelihoods"] = [f"{name} ({kind})" for name, kind in config.likelihoods.items()]
    if part.kind in ("decoder", "metric"):
        description["needs"] = [config.needs.__name__]
    if part.kind == "probe":
        description["asks about"] = ["a model with each decoder" if config.with_decoder else "a model"]
    if part.kind == "task":
        description["source"] = [config.source if isinstance(config.source, Source) else "by its settings"]
    description["settings"] = [_row(setting) for setting in settings(config)]
    description["inside"] = [
        {**asdict(group), "shape": group.shape, "settings": [_row(setting) for setting in group.settings]}
        for group in groups(config)
    ]
    return description


def _row(setting: Setting) -> dict[str, str]:
    return {
        "setting": setting.name,
        "type": _plain(setting.type),
        "default": setting.default,
        "meaning": _plain(setting.meaning),
    }


def _plain(text: str) -> str:
    """Remove links and backticks from text."""
    return MARKUP.sub(lambda match: match[1] or "", text)


def _print(part: Part) -> None:
    from bench_core.suites.extras import remedy

    description = _about(part)
    say(f"{part.kind} {description['name']}, from {part.distribution} {part.version}\n\n{description['what']}\n")
    if command := remedy(part):
        say(f"not installed: {command}")
    for key in SUMMARY_KEYS:
        if description.get(key):
            say(f"{key}: {', '.join(description[key])}")
    say(_table(description["settings"]) if description["settings"] else "No settings.")
    for group in description["inside"]:
        say(f"\n{group['shape']}\n{group['about']}")
        if group["settings"]:
            say(_table(group["settings"]))


def _table(rows: Sequence[dict[str, str]]) -> str:
    """Return settings as a table that fits the terminal; the column of meanings fills the remaining width."""
    from tabulate import tabulate

    width = min(max(get_terminal_size((120, 24)).columns, MIN_WIDTH), MAX_WIDTH)
    used = [min(30, max(len(line) for line in [key, *(row[key] for row in rows)])) for key in ("setting", "type")]
    default = min(24, max(len(row["default"]) for row in [{"default": "default"}, *rows]))
    table: str = tabulate(rows, headers="keys", maxcolwidths=[None, 30, 24, max(20, width - sum(used) - default - 6)])
    return table
