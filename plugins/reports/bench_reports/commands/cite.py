"""Print BibTeX references for a run or a suite."""

from pathlib import Path

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json


@click.command()
@click.argument("run", metavar="RUN|SUITE", type=click.Path(path_type=Path))
@click.option("--profile", help="A profile of the suite.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a value of the suite.")
@options.as_json
def command(run: Path, profile: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Print BibTeX references for all parts and corpora of a RUN or of a SUITE file."""
    from bench_core.errors import SuiteError
    from bench_reports.citations import collect, of_run, of_suite, plain, text

    if run.is_dir() and (profile or settings):
        raise SuiteError(f"{run} is a run with a fixed profile and fixed settings. Omit --profile and --set.")
    label, source, parts = of_run(run) if run.is_dir() else of_suite(run, profile, settings)
    citations = collect(parts)
    say(to_json(plain(citations), 1) if as_json else text(citations, label, source))
