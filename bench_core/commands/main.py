"""The command line: finds a file for each verb in `commands/` and imports it when it is asked for."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from io import StringIO, TextIOWrapper
from keyword import iskeyword
from typing import Any

import click

from bench_core.terminal import say

#: Each verb with the line that `bench --help` shows for it.
COMMANDS = {
    "list": "List the installed tasks, models, decoders and metrics.",
    "describe": "Show what a part is and its settings.",
    "check": "Check suites: every mistake, with file, line and column.",
    "plan": "Show what a run would compute, and what is stored.",
    "run": "Run a suite and write its report.",
    "report": "Write the report of a run.",
    "show": "Show one cell of a run, with outputs.",
    "diff": "Compare two cells of a run: tests, lengths, outputs.",
    "cite": "Print BibTeX of all that a run or a suite uses.",
    "why": "Say what changed where something is not stored.",
    "verify": "Check the artifacts and numbers of a run against the store.",
    "export": "Write a run to one file, for another machine.",
    "import": "Take in such a file, after checking all of it.",
    "merge": "Make one run of several of the same suite.",
    "store": "List, verify and clean up what is stored.",
    "data": "List, verify and fetch corpora.",
    "new": "Write a plugin, or a suite, to begin with.",
    "schema": "Print the JSON schema of suites, for editors.",
    "doctor": "Check this machine: Python, torch, devices, disk, data.",
}


class Verbs(click.Group):
    """Commands that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = import_module(f"bench_core.commands.{module}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no command {args[0]!r}. " + (f"Did you mean {near[0]!r}?" if near else "See `bench --help`."))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bench-core", prog_name="bench")
def bench() -> None:
    """Benchmarks of neural sequence generation: a suite file in, comparison tables out."""


def main() -> None:
    """Run the command line. Exit codes: 0 well; 1 a cell failed; 2 a mistake; 3 stopped in time; 130 interrupted."""
    from bench_core.errors import BenchError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the encoding of a terminal lacks is no failure
    try:
        code = bench.main(standalone_mode=False)
    except click.ClickException as error:
        shown = StringIO()
        error.show(shown)
        say(shown.getvalue(), err=True, end="")
        code = 2
    except BenchError as error:
        say(f"bench: {error}", err=True)
        code = 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; so do we, quietly
        code = 0
    except (KeyboardInterrupt, click.Abort):
        say("bench: interrupted; what was finished is stored.", err=True)
        code = 130
    except Exception:  # a mistake of ours, whose message may hold text of others
        say(traceback.format_exc(), err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
