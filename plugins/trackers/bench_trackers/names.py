"""Names of curves and files."""

import re
from collections.abc import Iterator

from bench_core import Evaluation, Number, TrainingName, Update

KEY_CHARACTERS = 8  # length of cache keys in names
MAX_NAME_CHARACTERS = 120  # limit for the readable part of a name


def file_name(text: str) -> str:
    """Convert a text to a file name of letters, digits, dots, hyphens and underscores."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:MAX_NAME_CHARACTERS] or "-"


def training_folder(training: TrainingName) -> str:
    """Return a unique folder name for a training run, equal in all suite runs with the same settings."""
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
    """Return an id of a training run that also distinguishes vmapped seeds."""
    return f"{training.key[: 2 * KEY_CHARACTERS]}-{training.seed}"


def number_name(number: Number) -> str:
    """Return the name of a cell's number without its seed, such as `perplexity/words/lstm/greedy/test/cpu`."""
    axes = [str(value) for name, value in number.cell.items() if name != "seed" and value is not None]
    return "/".join([number.metric, *axes])
