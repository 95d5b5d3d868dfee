"""Measure the cost of observers: CPU time of events relative to updates.

Run as `python benchmarks/observers.py [--quick]`; prints a Markdown table. Budget: below 3 % if the trainer reports as often
as it reads its log. Trackers that are not installed are skipped; the separate process of `wandb` is not measured.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import TypeAlias

import torch
from tabulate import tabulate

from bench_core import Batch, ObserverConfig, Purpose, Rng, Size, Split, Task, TaskInfo
from bench_core.observer import (
    RunStarted,
    TrainingName,
    TrainingStarted,
    Update,
    event_from_json,
    event_to_json,
)
from bench_core.registry import parts
from bench_core.runs.observing import observing
from bench_core.suites.extras import remedy
from bench_rnn.lm import RecurrentLM
from bench_rnn.plugin import RNNLMConfig
from bench_training.evaluation import Selection
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer

VOCABULARY, HIDDEN, ROWS, LENGTH = 2000, 128, 16, 30
BUDGET = 0.03
INTERVAL = 50  # updates between two reads of the trainer's log
NAME = TrainingName("sentences x lstm, seed 0", "0" * 64, 0)
LOSSES = {"loss": 1.0, "kl": 0.5}

Observers: TypeAlias = Mapping[str, Sequence[ObserverConfig]]


class RandomBatches(Task):
    """Batches of random tokens."""

    def __init__(self, number: int) -> None:
        rng = torch.Generator().manual_seed(0)
        gold = torch.randint(1, VOCABULARY, (number, ROWS, LENGTH), generator=rng)
        prompt, length = torch.zeros(ROWS, 1, dtype=torch.long), torch.full((ROWS,), LENGTH)
        self.fixed = [Batch(torch.arange(ROWS), prompt, target, length) for target in gold]

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        return iter(self.fixed)

    def prepare(self, data: Path) -> TaskInfo: ...
    def text(self, tokens: list[int]) -> str: ...
    def references(self, split: Split) -> Mapping[int, Sequence[str]]: ...


def train(updates: int) -> None:
    """Train for a number of updates, with an evaluation at the end that costs nothing."""
    torch.manual_seed(0)
    model = RecurrentLM(RNNLMConfig(hidden=HIDDEN, layers=1), TaskInfo(vocabulary=[*map(str, range(VOCABULARY))]))
    config = TrainingConfig(updates=updates, batch_size=ROWS)
    selection = Selection(lambda model: 0.0, -1, "valid nothing")
    Trainer(model, RandomBatches(updates), config, Rng(0), torch.device("cpu"), selection).run()


def all_observers(folder: Path) -> Observers:
    """Return the installed observers by name, and all of them together."""
    single = {
        name: [part.config(dir=folder / name)] for name, part in parts("observer").items() if remedy(part) is None
    }
    return {**single, "all": [config for configs in single.values() for config in configs]}


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of `work`, of all threads of this process."""
    gc.collect()
    start = process_time()
    work()
    return process_time() - start


def send(configs: Sequence[ObserverConfig], number: int) -> None:
    """Send a number of updates to observers."""
    with observing(configs, refuse) as hear:
        hear(RunStarted("benchmark-1", "benchmark", 1))
        hear(TrainingStarted(0, number, training=NAME))
        for step in range(1, number + 1):
            hear(Update(step, 0, 0.1, LOSSES, 1.0, training=NAME))


def refuse(text: str) -> None:
    """Raise RuntimeError for a warning: an observer that is switched off would make the benchmark meaningless."""
    raise RuntimeError(text)


def costs(observers: Observers, updates: int, number: int, repeats: int) -> list[list[object]]:
    """Return table rows with the costs of observers, as medians of alternating runs."""
    train(5)
    for configs in observers.values():  # imports everything
        send(configs, 2)
    times: dict[str, list[float]] = {}
    bare, transferred = [], []
    for _ in range(repeats):
        bare.append(seconds(lambda: train(updates)) / updates)
        transferred.append(seconds(lambda: transfer(number)) / number)
        for name, configs in observers.items():  # minus the cost of a single event
            whole, least = (seconds(lambda: send(configs, count)) for count in (number, 1))  # noqa: B023
            times.setdefault(name, []).append((whole - least) / (number - 1))
    update = median(bare)
    rows: list[list[object]] = [["transfer from another process", *_row(median(transferred), update)]]
    rows += [[name, *_row(median(values), update)] for name, values in times.items()]
    return rows


def transfer(number: int) -> None:
    """Write a number of events as JSON, as another process sends them, and read them back."""
    for step in range(number):
        text = json.dumps(event_to_json(Update(step, 0, 0.1, LOSSES, 1.0, training=NAME)))
        event_from_json(json.loads(text))


def _row(event: float, update: float) -> list[object]:
    every = 100 * event / update
    return [1e6 * event, 1e3 * update, every, every / INTERVAL, "yes" if every / INTERVAL < 100 * BUDGET else "no"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use few updates, to test the script")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        observers = all_observers(Path(folder))
        rows = costs(observers, 10 if quick else 50, 100 if quick else 2000, 3 if quick else 7)
    headers = ["observer", "us/event", "ms/update", "%, every update", f"%, every {INTERVAL}th", "below 3 %"]
    print(f"CPU time of all threads; updates of an LSTM of {HIDDEN}, {ROWS} rows of {LENGTH} tokens.\n")
    print(tabulate(rows, headers, "pipe", floatfmt=".2f"))


if __name__ == "__main__":
    main()
