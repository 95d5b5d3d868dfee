"""Names of curves and files."""

import re
from collections.abc import Iterator

from bench_core import Evaluation, Number, TrainingName, Update

KEY_CHARACTERS = 8  # characters of a cache key in names
MAX_NAME_CHARACTERS = 120  # of the readable part of a name


def file_name(text: str) -> str:
    """Return a text as a file name of letters, digits, dots, hyphens and underscores."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:MAX_NAME_CHARACTERS] or "-"


def training_folder(training: TrainingName) -> str:
    """Return a file name for a training: the same for all runs with the same settings, and unique."""
    return f"{file_name(training.label)}-{training.key[:KEY_CHARACTERS]}"


def curves(event: Update | Evaluation) -> Iterator[tuple[str, float]]:
    """Yield (curve name, value) pairs of an event."""
    if isinstance(event, Evaluation):
        yield f"evaluation/{event.metric}", event.value
        return
    yield from ((f"training/{name}", value) for name, value in event.losses.items())
    yield "training/lr", event.lr
    yield "training/epoch", float(event.epoch)
    if event.gradient_norm is not None:
        yield "training/gradient norm", event.gradient_norm


def run_id(training: TrainingName) -> str:
    """Return an id of a training that also distinguishes vmapped seeds."""
    return f"{training.key[: 2 * KEY_CHARACTERS]}-{training.seed}"


def number_name(number: Number) -> str:
    """Return the name of a number of a cell without its seed, such as `perplexity/words/lstm/greedy/test/cpu`."""
    axes = [str(value) for name, value in number.cell.items() if name != "seed" and value is not None]
    return "/".join([number.metric, *axes])
