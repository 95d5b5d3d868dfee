"""Print the command reference of docs/: every command of this repository with its arguments and options.

Run `python tools/command_reference.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import click
from reference import table

from bench_core.commands.main import COMMANDS, bench, further
from bench_core.entry_points import origin

HEAD = """<!-- Written by `make schema` from the command line. Edit the commands' docstrings and help texts. -->
# Commands

`bench COMMAND --help` prints the same. Exit codes are listed in [running.md](running.md#running-suites).
"""


def page() -> str:
    """Return the text of docs/commands.md."""
    context = click.Context(bench, info_name="bench")
    names = dict.fromkeys(COMMANDS, "bench-core") | {name: origin(entry)[0] for name, entry in further().items()}
    commands = {
        name: (command, home) for name, home in names.items() if (command := bench.get_command(context, name))
    }
    sections = [*_sections(commands, context)]
    links = [f"- [`{title}`](#{title.replace(' ', '-')}): {about}" for title, about, _ in sections]
    return "\n".join([HEAD, *links, "", *(text for _, _, text in sections)])


def _sections(
    commands: dict[str, tuple[click.Command, str]], parent: click.Context
) -> Iterator[tuple[str, str, str]]:
    """Yield title, first line and text of each command, including subcommands."""
    for name, (command, home) in sorted(commands.items()):
        context = click.Context(command, info_name=name, parent=parent)
        if isinstance(command, click.Group):
            inner = {subcommand: command.commands[subcommand] for subcommand in command.commands}
            yield from _sections({subcommand: (each, home) for subcommand, each in inner.items()}, context)
        else:
            help_text = _prose(command.help or "")
            usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
            parts = [
                f"## {context.command_path}\n",
                f"```text\n{usage}\n```\n",
                help_text,
                f"From `{home}`.\n",
                _options(command, context),
            ]
            yield context.command_path, help_text.partition("\n")[0], "\n".join(filter(None, parts))


def _prose(text: str) -> str:
    """Return the help text of a command as Markdown."""
    paragraphs = [part.replace("\b\n", "") for part in re.split(r"\n\s*\n", text.strip())]
    return "".join(f"{part}\n\n" for part in paragraphs)[:-1]


def _options(command: click.Command, context: click.Context) -> str:
    rows = []
    for option in command.params:
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record:
            rows.append((f"`{record[0]}`", " ".join(record[1].split())))
    return table(["option", "meaning"], rows) + "\n" if rows else ""


if __name__ == "__main__":
    sys.stdout.write(page())
