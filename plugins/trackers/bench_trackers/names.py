"""Names of curves and files."""

import re
from collections.abc import Iterator

from bench_core import Evaluation, Number, TrainingName, Update

LETTERS = 8  # of a cache key
LONGEST = 120  # characters of the readable part of a name


def file_name(text: str) -> str:
    """Return a text as the name of a file: letters, digits, dots, hyphens and underscores alone."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:LONGEST] or "-"


def training_folder(training: TrainingName) -> str:
    """Return a file name for a training: the same in every run of the same settings, and in no other training."""
    return f"{file_name(training.label)}-{training.key[:LETTERS]}"


def curves(event: Update | Evaluation) -> Iterator[tuple[str, float]]:
    """Yield the values of an event, each with the name of its curve."""
    if isinstance(event, Evaluation):
        yield f"evaluation/{event.metric}", event.value
        return
    yield from ((f"training/{name}", value) for name, value in event.losses.items())
    yield "training/lr", event.lr
    yield "training/epoch", float(event.epoch)
    if event.gradient_norm is not None:
        yield "training/gradient norm", event.gradient_norm


def run_id(training: TrainingName) -> str:
    """Return what tells a training from all others, also from the seeds that are trained together with it."""
    return f"{training.key[: 2 * LETTERS]}-{training.seed}"


def number_name(number: Number) -> str:
    """Return the name of a number of a cell, such as `perplexity/words/lstm/greedy/test/cpu`, without the seed."""
    axes = [str(value) for name, value in number.cell.items() if name != "seed" and value is not None]
    return "/".join([number.metric, *axes])
