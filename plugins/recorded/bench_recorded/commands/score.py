"""Score files of outputs against references, without a suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

import click

from bench_core import Thinking
from bench_core.terminal import say, to_json
from bench_recorded.plugin import Format
from bench_recorded.reading.pieces import Pieces

if TYPE_CHECKING:
    from bench_recorded.scoring.request import Scoring

FILE = click.Path(path_type=Path)
FORMATS, PIECES, THINKING = (click.Choice(get_args(one)) for one in (Format, Pieces, Thinking))
REDIRECTED = 160  # characters of a line where no terminal says how wide it is


def _gathered(command: Callable[[Scoring, str], None]) -> Callable[..., None]:
    """Give a command what is to be scored as one argument, and the format that is printed."""

    @wraps(command)
    def gathered(outputs: Sequence[Path], names: Sequence[str], form: str, as_json: bool, **given: Any) -> None:
        from bench_recorded.scoring.request import Scoring, metrics_of, names_of

        given["metrics"] = metrics_of(given["metrics"])
        command(Scoring(outputs=outputs, names=names_of(outputs, names), **given), "json" if as_json else form)

    return gathered


@click.command()
@click.argument("outputs", nargs=-1, required=True, type=FILE)
@click.option("-r", "--references", multiple=True, required=True, type=FILE, help="A file of references; repeatable.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME[:KEY=VALUE,...]", default=("bleu",), show_default=True,
    help="A metric, such as chrf or chrf:word_order=2; repeatable.",
)  # fmt: skip
@click.option("--name", "names", multiple=True, help="What a file is called, one for each in their order.")
@click.option("--source", type=FILE, help="A file of sources.")
@click.option("--read", "format", type=FORMATS, default="auto", show_default=True, help="How files are read.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "latex"]), default="text", show_default=True,
    help="What is printed.",
)  # fmt: skip
@click.option(
    "--match", type=click.Choice(["auto", "order", "number"]), default="auto", show_default=True,
    help="Whether outputs are found by their order or by ids, which are numbers of examples from 0.",
)  # fmt: skip
@click.option(
    "--test", type=click.Choice(["bootstrap", "permutation"]), default="bootstrap", show_default=True,
    help="The paired test against the first file.",
)  # fmt: skip
@click.option("--language", help="ISO 639 code of the language, by which metrics choose tokenizers.")
@click.option("--tokenized", is_flag=True, help="Spaces stand between all tokens.")
@click.option(
    "--pieces", "pieces", multiple=True, type=PIECES,
    help="How outputs are cut, to be joined: once, or for each file; by default those that look cut are refused.",
)  # fmt: skip
@click.option("--reference-pieces", type=PIECES, help="How references are cut, to be joined.")
@click.option(
    "--thinking", type=THINKING, default="refuse", show_default=True,
    help="What becomes of <think>...</think> in an output.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@_gathered
def command(scoring: Scoring, form: str) -> None:
    """Score files of OUTPUTS against references; the first of several is the baseline of paired tests.

    \b
    bench score --references ref.txt ours.txt theirs.txt --metric bleu --metric chrf
    """
    from bench_recorded.scoring.request import TABLE
    from bench_recorded.scoring.scores import scores
    from bench_recorded.scoring.shown import as_data, as_text
    from bench_reports.api import tables_latex

    with TemporaryDirectory(prefix="bench-") as folder:
        found = scores(scoring, Path(folder))
        for text in found.warnings:
            say(f"bench: {text}", err=True)
        if form == "json":
            say(to_json(as_data(scoring, found), 1))
        elif form == "latex":
            say(tables_latex(found.run)[TABLE])
        else:
            say(as_text(scoring, found, get_terminal_size((REDIRECTED, 24)).columns))
