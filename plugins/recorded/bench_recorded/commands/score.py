"""Score output files against references, without a suite."""

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
    from bench_recorded.scoring.request import ScoreRequest

FILE = click.Path(path_type=Path)
FORMATS, PIECES, THINKING = (click.Choice(get_args(choices)) for choices in (Format, Pieces, Thinking))
DEFAULT_WIDTH = 160  # characters per line if the width of the terminal is unknown


def _with_request(command: Callable[[ScoreRequest, str], None]) -> Callable[..., None]:
    """Convert the options of a command to a request and the output format."""

    @wraps(command)
    def wrapper(outputs: Sequence[Path], names: Sequence[str], form: str, as_json: bool, **rest: Any) -> None:
        from bench_recorded.scoring.request import ScoreRequest, file_names, parse_metrics

        rest["metrics"] = parse_metrics(rest["metrics"])
        command(ScoreRequest(outputs=outputs, names=file_names(outputs, names), **rest), "json" if as_json else form)

    return wrapper


@click.command()
@click.argument("outputs", nargs=-1, required=True, type=FILE)
@click.option("-r", "--references", multiple=True, required=True, type=FILE, help="A file of references; repeatable.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME[:KEY=VALUE,...]", default=("bleu",), show_default=True,
    help="A metric, such as chrf or chrf:word_order=2; repeatable.",
)  # fmt: skip
@click.option("--name", "names", multiple=True, help="The name of an output file in the table; give one per file.")
@click.option("--source", type=FILE, help="A file of sources.")
@click.option("--read", "format", type=FORMATS, default="auto", show_default=True, help="The format of output files.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "latex"]), default="text", show_default=True,
    help="The format of the printed result.",
)  # fmt: skip
@click.option(
    "--match", type=click.Choice(["auto", "order", "number"]), default="auto", show_default=True,
    help="Match outputs with references by order, or by ids that number the examples from 0.",
)  # fmt: skip
@click.option(
    "--test", type=click.Choice(["bootstrap", "permutation"]), default="bootstrap", show_default=True,
    help="The paired test against the first file of outputs.",
)  # fmt: skip
@click.option("--language", help="ISO 639 code of the language, used by metrics to choose tokenizers.")
@click.option("--tokenized", is_flag=True, help="Texts are tokenized, with spaces between tokens.")
@click.option(
    "--pieces", "pieces", multiple=True, type=PIECES,
    help="Join outputs split into this kind of pieces; one kind, or one per file. By default, they are refused.",
)  # fmt: skip
@click.option("--reference-pieces", type=PIECES, help="Join references that are split into this kind of pieces.")
@click.option(
    "--thinking", type=THINKING, default="refuse", show_default=True,
    help="Refuse, drop or keep <think>...</think> in outputs.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@_with_request
def command(request: ScoreRequest, form: str) -> None:
    """Score files of OUTPUTS against references; the first of several files is the baseline of paired tests.

    \b
    bench score --references ref.txt ours.txt theirs.txt --metric bleu --metric chrf
    """
    from bench_recorded.scoring.request import TABLE
    from bench_recorded.scoring.scores import score_files
    from bench_recorded.scoring.shown import as_data, as_text
    from bench_reports.api import tables_latex

    with TemporaryDirectory(prefix="bench-") as folder:
        result = score_files(request, Path(folder))
        for text in result.warnings:
            say(f"bench: {text}", err=True)
        if form == "json":
            say(to_json(as_data(request, result), 1))
        elif form == "latex":
            say(tables_latex(result.run)[TABLE])
        else:
            say(as_text(request, result, get_terminal_size((DEFAULT_WIDTH, 24)).columns))
