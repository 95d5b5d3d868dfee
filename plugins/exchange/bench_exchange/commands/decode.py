"""Decode lines of text with a trained model of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench_core.commands import options

if TYPE_CHECKING:
    from bench_core.storage.store import Store


@click.command()
@options.run
@click.argument("model")
@click.option("--decoder", help="Name of a decoder in the suite [default: the only one].")
@click.option("--task", help="Name of the task used for training [default: the only one].")
@click.option("--seed", type=int, help="Seed of training and of sampling decoders [default: the only one].")
@click.option("--hardware", help="Name of the hardware used for training [default: the only one].")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each line, with all outputs.")
@options.data
@options.runs
@options.store
def command(
    run: Path,
    model: str,
    decoder: str | None,
    task: str | None,
    seed: int | None,
    hardware: str | None,
    as_json: bool,
    data: Path,
    runs: Path,
    store: Store,
) -> int:
    """Decode each line of standard input with MODEL, a model in the suite of RUN, and print the best output.

    A line is a prompt of the task: the source, or a prefix of the output. A prompt from the test set gives the same
    output as in the run. On a terminal, prompts are read interactively. Nothing is stored in the run.

    Sampling decoders depend on --seed and the line number, so repeated lines get different samples.
    """
    from bench_exchange.decoding import Session
    from bench_notebook import load

    loaded = load(run, store.root, runs)
    trained = loaded.model(model, task=task, seed=seed, hardware=hardware, decoder=decoder, data=data)
    session = Session(trained, trained.decoder(decoder), model, as_json)
    stdin = sys.stdin.buffer
    if stdin.isatty():
        session.converse(stdin)
    else:
        session.decode(stdin)
    return 0
