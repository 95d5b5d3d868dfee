"""The cost of training: the trainer beside bare loops over the same batches, and its options beside it without them.

Run as `python benchmarks/training.py [--quick]`; prints Markdown tables. In every turn each loop does the same few
updates, in another order than in the turn before; ratios are medians over turns, of processor time. What is timed of the
trainer goes from the request for the first batch to the report of the last update: no evaluation. The budgets: an update
within 1.05 times that of a bare loop with the same network, which projects only scored positions or those of targets, puts
sentences of like length together and uses fused Adam; and options below 3 %.
"""

from __future__ import annotations

import argparse
import gc
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, TypeAlias

import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench_core import Batch, Purpose, Rng, Size, Split, Task, TaskInfo
from bench_huggingface.api import CausalLM
from bench_huggingface.plugin import CausalLMConfig
from bench_rnn.lm import RecurrentLM
from bench_rnn.plugin import RNNLMConfig
from bench_training.batch_stream import parts_of
from bench_training.evaluation import Selection
from bench_training.log import READ_EVERY
from bench_training.resuming import TrainingProgress
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer

VOCABULARY, HIDDEN, LAYERS, DROPOUT = 33_000, 256, 2, 0.3
ROWS, PREFIX, MEAN, LONGEST = 32, 10, 25, 137  # sentences a batch; tokens given; tokens of a sentence
GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_embd": 128, "n_head": 4, "n_positions": 256}
SMALLER = 8_000  # the vocabulary of the Transformer
BUDGET, OPTION = 1.05, 1.03
OPTIONS: Mapping[str, dict[str, Any]] = {
    "in 2 parts": {"accumulate": 2},
    "in 4 parts": {"accumulate": 4},
    "exponential average": {"average": "exponential"},
}

Pass: TypeAlias = Callable[[], float]  # one update for every batch; returns its processor seconds
Cost: TypeAlias = Callable[[Batch], Tensor]  # the mean loss per target token
Turns: TypeAlias = Mapping[str, Sequence[float]]  # seconds in each turn, by loop


def sentences(number: int, vocabulary: int = VOCABULARY) -> list[Tensor]:
    """Return token sequences with lengths and frequencies much like WikiText-2's: prefix, target, stop."""
    rng = Rng(1)
    uniform = rng.fork("length").uniform(torch.arange(number))
    lengths = (1 - uniform.log() * (MEAN - 1)).long().clamp(max=LONGEST)
    tokens = rng.fork("tokens").uniform(torch.arange(number), 0, LONGEST)
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
    prompt = nn.functional.pad(padded[:, :PREFIX], (1, 0))
    length = torch.tensor([len(row) for row in rows]) - PREFIX
    return Batch(first + torch.arange(len(rows)), prompt, padded[:, PREFIX:], length)


class Given(Task):
    """Batches that are at hand; knows when the first one was asked for."""

    began = 0.0

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.given = batches

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        self.began = process_time()
        yield from self.given

    def prepare(self, data: Path) -> TaskInfo: ...
    def text(self, tokens: list[int]) -> str: ...
    def references(self, split: Split) -> Mapping[int, Sequence[str]]: ...


def ours(model: nn.Module, batches: Sequence[Batch], observed: bool = False, **options: Any) -> Pass:
    """Return a pass of the core's trainer, perhaps with an observer, which is told after the first update of each."""
    told: list[float] = []
    heard: list[object] = []
    given, plan = Given(batches), TrainingConfig(updates=len(batches), clip=1.0, batch_size=ROWS, **options)
    selection = Selection(lambda model: 0.0, -1, "nothing")
    trainer = Trainer(
        model, given, plan, Rng(0), torch.device("cpu"), selection,
        tell=lambda text, share: told.append(process_time()), **({"hear": heard.append} if observed else {}),
    )  # fmt: skip

    def run() -> float:
        told.clear()
        trainer.progress = TrainingProgress(step=READ_EVERY - 1)
        trainer.run()
        return told[len(batches) - 1] - given.began

    return run


def bare(model: nn.Module, batches: Sequence[Batch], cost: Cost, parts: int = 1, fused: bool = True) -> Pass:
    """Return a pass of a bare loop, which may compute each batch in parts and add up their gradients."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=fused or None)

    def update(batch: Batch) -> None:
        optimizer.zero_grad()
        if parts == 1:
            torch.autograd.backward(cost(batch))
        else:
            tokens = batch.length.sum()
            for part in parts_of(batch, parts):
                torch.autograd.backward(cost(part) * (part.length.sum() / tokens))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def run() -> float:
        began = process_time()
        for batch in batches:
            update(batch)
        return process_time() - began

    return run


class Bare(nn.Module):
    """The recurrent network, with nothing around it."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, LAYERS, batch_first=True, dropout=DROPOUT)
        self.logits = nn.Linear(HIDDEN, vocabulary)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.dropout(self.lstm(self.dropout(self.embed(tokens)))[0])
        return hidden

    def cost(self, batch: Batch) -> Tensor:
        """Project the scored positions only."""
        scored = batch.mask
        return cross_entropy(self.logits(self(batch.inputs)[:, PREFIX:][scored]), batch.gold[scored])

    def naive_cost(self, batch: Batch) -> Tensor:
        """Project prefix and padding as well."""
        labels = batch.gold.masked_fill(~batch.mask, -100)
        labels = torch.cat([labels.new_full((len(batch), PREFIX), -100), labels], 1)
        return cross_entropy(self.logits(self(batch.inputs)).flatten(0, 1), labels.flatten())


def recurrent(batches: Sequence[Batch], mixed: Sequence[Batch], vocabulary: int) -> dict[str, Pass]:
    """Return the loops of the LSTM by name."""

    def model() -> nn.Module:
        return RecurrentLM(RNNLMConfig(hidden=HIDDEN, layers=LAYERS, dropout=DROPOUT), _info(vocabulary))

    def plain(parts: int = 1) -> Pass:
        network = Bare(vocabulary)
        return bare(network, batches, network.cost, parts)

    naive = Bare(vocabulary)
    return {**_loops(model, plain, batches), "naive": bare(naive, mixed, naive.naive_cost, fused=False)}


def transformer(batches: Sequence[Batch], vocabulary: int) -> dict[str, Pass]:
    """Return the loops of transformers' GPT-2 by name; the bare one projects the positions of targets."""

    def model() -> CausalLM:
        return CausalLM(CausalLMConfig(architecture=GPT2), _info(vocabulary))

    def plain(parts: int = 1) -> Pass:
        network: Any = model().network

        def cost(batch: Batch) -> Tensor:
            kept = network(input_ids=batch.inputs, use_cache=False, logits_to_keep=batch.gold.shape[1]).logits
            return cross_entropy(kept[batch.mask], batch.gold[batch.mask])

        return bare(network, batches, cost, parts)

    return _loops(model, plain, batches)


def _loops(model: Callable[[], nn.Module], plain: Callable[..., Pass], batches: Sequence[Batch]) -> dict[str, Pass]:
    options = {name: ours(model(), batches, **settings) for name, settings in OPTIONS.items()}
    return {
        "bare": plain(),
        "trainer": ours(model(), batches),
        "bare, again": plain(),
        **options,
        "bare, in 2 parts": plain(2),
        "bare, in 4 parts": plain(4),
        "observed": ours(model(), batches, observed=True),
    }


def _info(vocabulary: int) -> TaskInfo:
    return TaskInfo(vocabulary=[str(token) for token in range(vocabulary)])


def turns(loops: Mapping[str, Pass], repeats: int) -> Turns:
    """Return what loops cost, `repeats` times over, after a pass of each that does not count.

    Each turn begins with another of them, because what ran before leaves its mark on memory, and other work on the clock.
    """
    found: dict[str, list[float]] = {name: [] for name in loops}
    names = [*loops]
    for turn in range(repeats + 1):
        begin = turn % len(names)
        for name in names[begin:] + names[:begin]:
            gc.collect()
            seconds = loops[name]()
            if turn:
                found[name].append(seconds)
    return found


def row(name: str, found: Turns, loop: str, beside: str, updates: int, budget: float | None = None) -> list[object]:
    """Return a line of the table; its ratio is the median over turns, not that of the medians."""
    ratios = [time / other for time, other in zip(found[loop], found[beside], strict=True)]
    times = [1e3 * median(found[each]) / updates for each in (loop, beside)]
    return [name, *times, median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}", budget or ""]


def table(found: Turns, updates: int) -> str:
    """Return loops beside the bare one, and options beside the trainer without them."""
    rows = [
        row("the trainer / a bare loop", found, "trainer", "bare", updates, BUDGET),
        row("a bare loop, again: how far equals differ", found, "bare, again", "bare", updates),
    ]
    if "naive" in found:
        name = "all positions, mixed lengths, plain Adam / a bare loop"
        rows.append(row(name, found, "naive", "bare", updates))
    for parts in ("in 2 parts", "in 4 parts"):
        rows += [
            row(f"the trainer {parts} / a bare loop {parts}", found, parts, f"bare, {parts}", updates, BUDGET),
            row(f"the trainer {parts} / whole", found, parts, "trainer", updates),
            row(f"a bare loop {parts} / whole", found, f"bare, {parts}", "bare", updates),
        ]
    for option in ("exponential average", "observed"):
        rows.append(row(f"the trainer, {option} / without", found, option, "trainer", updates, OPTION))
    headers = ("what", "ms an update", "beside it", "ratio", "in single turns", "budget")
    return tabulate(rows, headers, tablefmt="github", floatfmt=("", ".1f", ".1f", ".3f", "", ".2f"))


def machine() -> str:
    """Return what this runs on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small batch, fewer words and turns, for a look")
    quick = parser.parse_args().quick
    batches, size, repeats = (1, 8, 1) if quick else (2, ROWS, 5)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for network, most in (("LSTM", VOCABULARY), ("GPT-2", SMALLER)):
        vocabulary = 1_000 if quick else most
        rows = sentences(batches * size, vocabulary)
        alike, mixed = bucketed(rows), batched(rows)
        loops = recurrent(alike, mixed, vocabulary) if network == "LSTM" else transformer(alike, vocabulary)
        width = f"{LAYERS} x {HIDDEN}" if network == "LSTM" else f"{GPT2['n_layer']} x {GPT2['n_embd']}"
        tokens = int(sum(batch.length.sum() for batch in alike))
        print(f"{network}, {width}, V = {vocabulary:,}: {batches} batches of {size} sentences, ", end="")
        print(f"{tokens:,} target tokens; {repeats} turns. {machine()}.\n")
        print(f"{table(turns(loops, repeats), batches)}\n")


if __name__ == "__main__":
    main()
