"""The command line: one file per command, imported when it is called.

Commands of other distributions are entry points of the group `bench.commands`; `bench --help` describes them by the
first line of their module's docstring.
"""

import ast
import gc
import sys
import traceback
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from io import StringIO, TextIOWrapper
from typing import Any

import click

from bench_core import entry_points
from bench_core.optional import source
from bench_core.terminal import say

#: Commands of the core -> descriptions in `bench --help`.
COMMANDS = {
    "list": "List the installed tasks, models, decoders and metrics.",
    "check": "Check suites: every problem, with file, line and column.",
    "run": "Run a suite and write its report.",
}

USUAL_THRESHOLDS = gc.get_threshold()

#: Distribution -> its commands, for advice on what to install.
COMMANDS_OF = {
    "bench-authors": ("describe", "new", "schema"),
    "bench-reports": ("report", "show", "diff", "cite", "view"),
    "bench-exchange": ("export", "import", "merge", "outputs", "decode", "verify"),
    "bench-recorded": ("score",),
    "bench-text": ("data",),
    "bench-upkeep": ("plan", "why", "store", "runs", "doctor"),
}


@cache
def further() -> dict[str, EntryPoint]:
    """Return the commands of other distributions, by name; commands of the core cannot be replaced."""
    entries = entry_points.declared(entry_points.COMMANDS)
    return {entry.name: entry for entry in entries if entry.name not in COMMANDS}


class Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *further()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ("list", "check"):
            gc.set_threshold(*USUAL_THRESHOLDS)
        if cmd_name in COMMANDS:
            command: click.Command = import_module(f"bench_core.commands.{cmd_name}").command
            return command
        if cmd_name not in further():
            return None
        try:
            loaded: click.Command = further()[cmd_name].load()
        except (ImportError, AttributeError) as error:
            owner, _ = entry_points.origin(further()[cmd_name])
            text = f"{cmd_name} of {owner} cannot be imported: {error}. Reinstall {owner}."
            raise click.ClickException(text) from None
        return loaded

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SystemExit as stop:  # otherwise, its code would become the exit code
            from bench_core.errors import PluginError

            raise PluginError(f"a plugin called sys.exit({stop.code!r}). Remove the call, or the plugin.") from stop

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}. {_advice(args[0], known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        owners = {name: entry_points.origin(entry)[0] for name, entry in further().items()}
        for owner in sorted(set(owners.values())):
            with formatter.section(f"Commands of {owner}"):
                formatter.write_dl([(name, _summary(further()[name])) for name in owners if owners[name] == owner])


def _advice(name: str, known: list[str]) -> str:
    for owner, names in COMMANDS_OF.items():
        if name in names:
            return f"It comes with {source(owner)}."
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else "See `bench --help`."


def _summary(entry: EntryPoint) -> str:
    """Return the first line of the docstring of a command's module, without importing it."""
    try:
        spec = find_spec(entry.module)
        source = spec.loader.get_source(entry.module) if spec and isinstance(spec.loader, SourceFileLoader) else ""
        return (ast.get_docstring(ast.parse(source or "")) or "").partition("\n")[0]
    except (ImportError, SyntaxError, ValueError):
        return "(cannot be imported)"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bench-core", prog_name="bench")
def bench() -> None:
    """Benchmark neural sequence generation: from a suite file to comparison tables."""


def main() -> None:
    """Run the command line.

    Exit codes: 0 success; 1 a cell failed; 2 usage error; 3 stopped by --stop-after; 130 interrupted.
    """
    from bench_core.errors import BenchError

    gc.set_threshold(10**6)  # short commands produce less garbage than searching for it costs
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals with another encoding
    try:
        code = bench.main(standalone_mode=False)
    except click.ClickException as error:
        text = StringIO()
        error.show(text)
        say(text.getvalue(), err=True, end="")
        code = 2
    except BenchError as error:
        say(f"bench: {error}", err=True)
        code = 2
    except BrokenPipeError:
        sys.stderr.close()  # the program that reads our output has ended
        code = 0
    except (KeyboardInterrupt, click.Abort):
        say("bench: interrupted; finished stages are stored.", err=True)
        code = 130
    except Exception:  # a bug; its message may contain arbitrary text
        say(traceback.format_exc(), err=True)
        code = 1
    if gc.get_threshold() != USUAL_THRESHOLDS:
        gc.freeze()  # exit without searching for garbage
    sys.exit(code if isinstance(code, int) else 0)
