"""What observing a training costs: the processor time of events, against that of updates.

Run as `python benchmarks/observers.py [--quick]`; prints a Markdown table. The budget: below 3 % where the trainer reports
as often as it reads its log. Trackers that are not installed are left out; `wandb` also has a process of its own.
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
LOG = 50  # updates between two looks of a trainer at its log
NAME = TrainingName("sentences x lstm, seed 0", "0" * 64, 0)
LOSSES = {"loss": 1.0, "kl": 0.5}

Observers: TypeAlias = Mapping[str, Sequence[ObserverConfig]]


class Given(Task):
    """Batches of random tokens."""

    def __init__(self, number: int) -> None:
        rng = torch.Generator().manual_seed(0)
        gold = torch.randint(1, VOCABULARY, (number, ROWS, LENGTH), generator=rng)
        prompt, length = torch.zeros(ROWS, 1, dtype=torch.long), torch.full((ROWS,), LENGTH)
        self.given = [Batch(torch.arange(ROWS), prompt, one, length) for one in gold]

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        return iter(self.given)

    def prepare(self, data: Path) -> TaskInfo: ...
    def text(self, tokens: list[int]) -> str: ...
    def references(self, split: Split) -> Mapping[int, Sequence[str]]: ...


def train(updates: int) -> None:
    """Train for so many updates, with an evaluation at the end that costs nothing."""
    torch.manual_seed(0)
    model = RecurrentLM(RNNLMConfig(hidden=HIDDEN, layers=1), TaskInfo(vocabulary=[*map(str, range(VOCABULARY))]))
    config = TrainingConfig(updates=updates, batch_size=ROWS)
    selection = Selection(lambda model: 0.0, -1, "valid nothing")
    Trainer(model, Given(updates), config, Rng(0), torch.device("cpu"), selection).run()


def installed(folder: Path) -> Observers:
    """Return the observers of this environment by name, alone and all together."""
    known = {name: [one.config(dir=folder / name)] for name, one in parts("observer").items() if remedy(one) is None}
    return {**known, "all of them": [one for configs in known.values() for one in configs]}


def seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of all threads of this process."""
    gc.collect()
    begun = process_time()
    work()
    return process_time() - begun


def heard(configs: Sequence[ObserverConfig], number: int) -> None:
    """Let observers hear of so many updates, and write all of them."""
    with observing(configs, refuse) as hear:
        hear(RunStarted("benchmark-1", "benchmark", 1))
        hear(TrainingStarted(0, number, training=NAME))
        for step in range(1, number + 1):
            hear(Update(step, 0, 0.1, LOSSES, 1.0, training=NAME))


def refuse(text: str) -> None:
    """Raise instead of a warning: a benchmark of an observer that is off says nothing."""
    raise RuntimeError(text)


def costs(observers: Observers, updates: int, number: int, repeats: int) -> list[list[object]]:
    """Return rows of what observers cost, medians of turns in which each follows the other."""
    train(5)
    for configs in observers.values():  # so that all is imported
        heard(configs, 2)
    turns: dict[str, list[float]] = {}
    bare, carried = [], []
    for _ in range(repeats):
        bare.append(seconds(lambda: train(updates)) / updates)
        carried.append(seconds(lambda: carry(number)) / number)
        for name, configs in observers.items():  # less what an observer costs that hears of nothing much
            whole, least = (seconds(lambda: heard(configs, count)) for count in (number, 1))  # noqa: B023
            turns.setdefault(name, []).append((whole - least) / (number - 1))
    update = median(bare)
    rows: list[list[object]] = [["as data from another process", *_row(median(carried), update)]]
    rows += [[name, *_row(median(times), update)] for name, times in turns.items()]
    return rows


def carry(number: int) -> None:
    """Write so many events as the data that another process sends, and read them back."""
    for step in range(number):
        text = json.dumps(event_to_json(Update(step, 0, 0.1, LOSSES, 1.0, training=NAME)))
        event_from_json(json.loads(text))


def _row(event: float, update: float) -> list[object]:
    often = 100 * event / update
    return [1e6 * event, 1e3 * update, often, often / LOG, "yes" if often / LOG < 100 * BUDGET else "no"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few updates, for a look")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        observers = installed(Path(folder))
        rows = costs(observers, 10 if quick else 50, 100 if quick else 2000, 3 if quick else 7)
    headers = ["observed by", "us an event", "ms an update", "% if each is heard", f"% of every {LOG}", "below 3 %"]
    print(f"Processor time of all threads; updates of an LSTM of {HIDDEN}, {ROWS} rows of {LENGTH} tokens.\n")
    print(tabulate(rows, headers, "pipe", floatfmt=".2f"))


if __name__ == "__main__":
    main()
