"""The cost of training a recurrent language model, against plain loops over the same sentences.

Run as `python benchmarks/training.py [--quick]`; prints a Markdown table. The budget: at most 1.1 times the time of a
bare loop that projects only scored positions, puts sentences of like length together and uses fused Adam.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeAlias

import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench_core import Batch, Noise, Purpose, Size, Split, Task, TaskInfo
from bench_core.computing.train import Progress, Selection, Trainer
from bench_core.suites.schema import TrainingConfig
from bench_rnn.lm import RecurrentLM
from bench_rnn.plugin import RNNLMConfig

VOCABULARY, HIDDEN, LAYERS, DROPOUT = 33_000, 256, 2, 0.3
ROWS, PREFIX, MEAN, LONGEST = 32, 10, 25, 137  # sentences a batch; tokens given; tokens of a sentence
BUDGET = 1.1

Pass: TypeAlias = Callable[[], None]  # one update for every batch


def sentences(number: int, vocabulary: int = VOCABULARY) -> list[Tensor]:
    """Return token sequences with lengths and frequencies much like WikiText-2's: prefix, target, stop."""
    noise = Noise(1)
    uniform = noise.fork("length").uniform(torch.arange(number))
    lengths = (1 - uniform.log() * (MEAN - 1)).long().clamp(max=LONGEST)
    tokens = noise.fork("tokens").uniform(torch.arange(number), 0, LONGEST)
    tokens = torch.pow(float(vocabulary - 1), tokens).long()  # Zipf's law: log-uniform ranks, 1 and up
    ends = lengths.clamp(min=PREFIX)  # shorter ones are filled up to the prefix, and have nothing but stop to predict
    return [torch.cat([row[:end], row.new_zeros(1)]) for row, end in zip(tokens, ends.tolist(), strict=True)]


def batched(rows: Sequence[Tensor]) -> list[Batch]:
    """Put sentences together as they come."""
    return [_batch(rows[i : i + ROWS], i) for i in range(0, len(rows), ROWS)]


def bucketed(rows: Sequence[Tensor]) -> list[Batch]:
    """Put sentences of like length together."""
    return batched(sorted(rows, key=len))


def _batch(rows: Sequence[Tensor], first: int) -> Batch:
    padded = nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    opening = nn.functional.pad(padded[:, :PREFIX], (1, 0))
    length = torch.tensor([len(row) for row in rows]) - PREFIX
    return Batch(first + torch.arange(len(rows)), opening, padded[:, PREFIX:], length)


class Given(Task):
    """Batches that are at hand."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.given = batches

    def batches(self, split: Split, purpose: Purpose, size: Size, noise: Noise | None = None) -> Iterator[Batch]:
        return iter(self.given)

    def prepare(self, data: Path) -> TaskInfo: ...
    def text(self, tokens: list[int]) -> str: ...
    def references(self, split: Split) -> Mapping[int, Sequence[str]]: ...


def ours(batches: Sequence[Batch], vocabulary: int) -> Pass:
    """Return a pass of the core's trainer over our model, with the keeping of the best weights at its end."""
    info = TaskInfo(vocabulary=[str(token) for token in range(vocabulary)])
    model = RecurrentLM(RNNLMConfig(hidden=HIDDEN, layers=LAYERS, dropout=DROPOUT), info)
    plan = TrainingConfig(epochs=1, clip=1.0, batch_size=ROWS)
    selection = Selection(lambda model: 0.0, -1, "nothing")
    trainer = Trainer(model, Given(batches), plan, Noise(0), torch.device("cpu"), selection)

    def run() -> None:
        trainer.progress = Progress()
        trainer.run()

    return run


class Bare(nn.Module):
    """The same network, with nothing around it."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, LAYERS, batch_first=True, dropout=DROPOUT)
        self.logits = nn.Linear(HIDDEN, vocabulary)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.dropout(self.lstm(self.dropout(self.embed(tokens)))[0])
        return hidden


def bare(batches: Sequence[Batch], vocabulary: int) -> Pass:
    """Return a pass of a bare loop that projects the scored positions only."""
    model = Bare(vocabulary)

    def cost(batch: Batch) -> Tensor:
        scored = batch.mask
        hidden = model(batch.inputs)[:, PREFIX:]
        return cross_entropy(model.logits(hidden[scored]), batch.gold[scored])

    return _updates(model, batches, cost, fused=True)


def naive(batches: Sequence[Batch], vocabulary: int) -> Pass:
    """Return a pass of a loop that projects prefix and padding as well, with Adam as it comes by default."""
    model = Bare(vocabulary)

    def cost(batch: Batch) -> Tensor:
        labels = batch.gold.masked_fill(~batch.mask, -100)
        labels = torch.cat([labels.new_full((len(batch), PREFIX), -100), labels], 1)
        return cross_entropy(model.logits(model(batch.inputs)).flatten(0, 1), labels.flatten())

    return _updates(model, batches, cost, fused=False)


def _updates(model: nn.Module, batches: Sequence[Batch], cost: Callable[[Batch], Tensor], fused: bool) -> Pass:
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=fused or None)

    def run() -> None:
        for batch in batches:
            optimizer.zero_grad()
            torch.autograd.backward(cost(batch))
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return run


def beside(run: Pass, plain: Pass, repeats: int) -> list[tuple[float, float]]:
    """Return what `run` and `plain` cost in seconds, `repeats` times over, after a pass of each that does not count.

    They take turns at going first, because what ran before leaves its mark on memory, and other work on the clock.
    """
    run()
    plain()
    turns = []
    for turn in range(repeats):
        if turn % 2:
            other = _timed(plain)
            turns.append((_timed(run), other))
        else:
            turns.append((_timed(run), _timed(plain)))
    return turns


def _timed(run: Pass) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def row(name: str, turns: Sequence[tuple[float, float]], tokens: int) -> tuple[str, float, float, float, float, str]:
    """Return a line of the table; its ratio is the median over turns, not that of the medians."""
    ratios = [time / plain for time, plain in turns]
    time, plain = (median(times) for times in zip(*turns, strict=True))
    return name, time, plain, tokens / time, median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"


def machine() -> str:
    """Return what this runs on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer batches, words and turns, for a look")
    batches, repeats, vocabulary = (1, 1, 1_000) if parser.parse_args().quick else (8, 6, VOCABULARY)
    torch.manual_seed(0)
    rows = sentences(batches * ROWS, vocabulary)
    together, mixed = bucketed(rows), batched(rows)
    plain, tokens = bare(together, vocabulary), int(sum(batch.length.sum() for batch in together))
    loops = {
        "`rnn-lm`, by the trainer": ours(together, vocabulary),
        "bare, again: how far equals differ": bare(together, vocabulary),
        "naive: all positions, mixed lengths, plain Adam": naive(mixed, vocabulary),
    }
    table = [row(name, beside(run, plain, repeats), tokens) for name, run in loops.items()]
    print(
        f"Training a {LAYERS} x {HIDDEN} LSTM, V = {vocabulary:,}, {batches} batches of {ROWS} sentences with ",
        end="",
    )
    print(f"{tokens:,} target tokens; medians of {repeats} turns. {machine()}.\n")
    headers = ("loop", "seconds", "bare loop beside it", "target tokens/s", "ratio", "in single turns")
    print(tabulate(table, headers, tablefmt="github", floatfmt=("", ".2f", ".2f", ".0f", ".2f")))
    print(f"\nBudget for `rnn-lm` and the trainer: at most {BUDGET} times the bare loop.")


if __name__ == "__main__":
    main()
