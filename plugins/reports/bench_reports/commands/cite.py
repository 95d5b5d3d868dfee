"""Print BibTeX of all that a run or a suite uses."""

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
    """Print BibTeX of every part, corpus and metric that RUN used, or that a SUITE file names."""
    from bench_core.errors import SuiteError
    from bench_reports.citations import gathered, of_run, of_suite, plain, text

    if run.is_dir() and (profile or settings):
        raise SuiteError(f"{run} is a run, whose profile and settings are what they were. Leave the options out.")
    label, source, parts = of_run(run) if run.is_dir() else of_suite(run, profile, settings)
    found = gathered(parts)
    say(to_json(plain(found), 1) if as_json else text(found, label, source))
