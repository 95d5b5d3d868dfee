"""List, verify and fetch corpora."""

from collections.abc import Callable, Iterable
from pathlib import Path

import click

from bench_core import DataError
from bench_core.commands import options
from bench_core.terminal import say, to_json


@click.group()
def command() -> None:
    """List, verify and fetch corpora."""


@command.command("list")
@options.data
@options.as_json
def list_corpora(data: Path, as_json: bool) -> None:
    """List the known corpora, and whether they are available locally."""
    from bench_text.corpora import catalogue, present

    rows = [
        {
            "corpus": name,
            "here": "yes" if present(name, data) else "no",
            "fetch": "yes" if entry.fetchable else "no",
            "about": entry.about,
            "licence": entry.licence,
        }
        for name, entry in catalogue().items()
    ]
    if as_json:
        say(to_json({"folder": str(data), "corpora": rows}))
        return
    from tabulate import tabulate

    say(f"corpora in {data}")
    say(tabulate(rows, headers="keys", maxcolwidths=[None, None, None, 50, 40]))


@command.command("verify")
@click.argument("names", nargs=-1)
@options.data
def verify_corpora(names: tuple[str, ...], data: Path) -> int:
    """Compare the files of corpora with their published digests; by default of all available corpora."""
    from bench_text.corpora import catalogue, present, verify

    chosen = names or tuple(name for name in catalogue() if present(name, data))
    if not chosen:
        say(f"{data} contains no known corpus. See `bench data list`.")
    return _print_results(chosen, lambda name: f"{len(verify(name, data))} files match their digests")


@command.command("fetch")
@click.argument("names", nargs=-1, required=True)
@options.data
def fetch_corpora(names: tuple[str, ...], data: Path) -> int:
    """Download corpora from their public sources, and verify every file."""
    from bench_text.corpora import corpus, fetch

    def fetch_one(name: str) -> str:
        return f"{len(fetch(name, data))} files in {data / name}; licence: {corpus(name).licence}"

    return _print_results(names, fetch_one)


def _print_results(names: Iterable[str], do: Callable[[str], str]) -> int:
    """Print the result of `do` for each corpus, or its error; return the exit code."""
    code = 0
    for name in names:
        try:
            say(f"{name}: {do(name)}")
        except DataError as error:
            say(f"bench: {error}", err=True)
            code = 2
    return code
