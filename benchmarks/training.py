"""Compare the trainer with bare loops over the same batches, and its options with the trainer without them.

Run as `python benchmarks/training.py [--quick]`; prints Markdown tables. Each round runs the same few updates of all loops,
starting with a different one; ratios of CPU times are medians over rounds. The trainer is timed from its request for the
first batch to its report of the last update, without evaluation. Budgets: 1.05 times a bare loop with the same network, which
projects only scored or target positions, batches sentences of similar length and uses fused Adam; and 3 % for options.
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
ROWS, PREFIX, MEAN, MAX_LENGTH = 32, 10, 25, 137  # batch size; prompt tokens; mean and maximum tokens of a sentence
GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_embd": 128, "n_head": 4, "n_positions": 256}
GPT2_VOCABULARY = 8_000
BUDGET, OPTION_BUDGET = 1.05, 1.03
OPTIONS: Mapping[str, dict[str, Any]] = {
    "in 2 parts": {"accumulate": 2},
    "in 4 parts": {"accumulate": 4},
    "exponential average": {"average": "exponential"},
}

Pass: TypeAlias = Callable[[], float]  # performs one update per batch; returns CPU seconds
Cost: TypeAlias = Callable[[Batch], Tensor]  # mean loss per target token
Rounds: TypeAlias = Mapping[str, Sequence[float]]  # CPU seconds of each round, by loop


def sentences(number: int, vocabulary: int = VOCABULARY) -> list[Tensor]:
    """Return token sequences with lengths and frequencies similar to WikiText-2: prompt, target, EOS."""
    rng = Rng(1)
    uniform = rng.fork("length").uniform(torch.arange(number))
    lengths = (1 - uniform.log() * (MEAN - 1)).long().clamp(max=MAX_LENGTH)
    tokens = rng.fork("tokens").uniform(torch.arange(number), 0, MAX_LENGTH)
    tokens = torch.pow(float(vocabulary - 1), tokens).long()  # Zipf's law: log-uniform ranks from 1
    ends = lengths.clamp(min=PREFIX)  # shorter sentences are extended to the prompt; only EOS remains to predict
    return [torch.cat([row[:end], row.new_zeros(1)]) for row, end in zip(tokens, ends.tolist(), strict=True)]


def batched(rows: Sequence[Tensor]) -> list[Batch]:
    """Batch sentences in the given order."""
    return [_batch(rows[i : i + ROWS], i) for i in range(0, len(rows), ROWS)]


def bucketed(rows: Sequence[Tensor]) -> list[Batch]:
    """Batch sentences of similar length."""
    return batched(sorted(rows, key=len))


def _batch(rows: Sequence[Tensor], first: int) -> Batch:
    padded = nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    prompt = nn.functional.pad(padded[:, :PREFIX], (1, 0))
    length = torch.tensor([len(row) for row in rows]) - PREFIX
    return Batch(first + torch.arange(len(rows)), prompt, padded[:, PREFIX:], length)


class TimedBatches(Task):
    """Fixed batches; `began` is the CPU time when the first batch was requested."""

    began = 0.0

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.fixed = batches

    def batches(self, split: Split, purpose: Purpose, size: Size, rng: Rng | None = None) -> Iterator[Batch]:
        self.began = process_time()
        yield from self.fixed

    def prepare(self, data: Path) -> TaskInfo: ...
    def text(self, tokens: list[int]) -> str: ...
    def references(self, split: Split) -> Mapping[int, Sequence[str]]: ...


def ours(model: nn.Module, batches: Sequence[Batch], observed: bool = False, **options: Any) -> Pass:
    """Return a function that runs the trainer on the batches; with `observed`, an observer receives its events."""
    times: list[float] = []
    events: list[object] = []
    task, plan = TimedBatches(batches), TrainingConfig(updates=len(batches), clip=1.0, batch_size=ROWS, **options)
    selection = Selection(lambda model: 0.0, -1, "nothing")
    trainer = Trainer(
        model, task, plan, Rng(0), torch.device("cpu"), selection,
        tell=lambda text, share: times.append(process_time()), **({"hear": events.append} if observed else {}),
    )  # fmt: skip

    def run() -> float:
        times.clear()
        trainer.progress = TrainingProgress(step=READ_EVERY - 1)
        trainer.run()
        return times[len(batches) - 1] - task.began

    return run


def bare(model: nn.Module, batches: Sequence[Batch], cost: Cost, parts: int = 1, fused: bool = True) -> Pass:
    """Return a function that runs a bare loop, which accumulates gradients over `parts` of each batch."""
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


class BareLSTM(nn.Module):
    """The recurrent network alone."""

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
        """Return the loss; projects scored positions only."""
        scored = batch.mask
        return cross_entropy(self.logits(self(batch.inputs)[:, PREFIX:][scored]), batch.gold[scored])

    def naive_cost(self, batch: Batch) -> Tensor:
        """Return the loss; projects prompt and padding as well."""
        labels = batch.gold.masked_fill(~batch.mask, -100)
        labels = torch.cat([labels.new_full((len(batch), PREFIX), -100), labels], 1)
        return cross_entropy(self.logits(self(batch.inputs)).flatten(0, 1), labels.flatten())


def recurrent(batches: Sequence[Batch], mixed: Sequence[Batch], vocabulary: int) -> dict[str, Pass]:
    """Return the loops of the LSTM, by name."""

    def model() -> nn.Module:
        return RecurrentLM(RNNLMConfig(hidden=HIDDEN, layers=LAYERS, dropout=DROPOUT), _info(vocabulary))

    def plain(parts: int = 1) -> Pass:
        network = BareLSTM(vocabulary)
        return bare(network, batches, network.cost, parts)

    naive = BareLSTM(vocabulary)
    return {**_loops(model, plain, batches), "naive": bare(naive, mixed, naive.naive_cost, fused=False)}


def transformer(batches: Sequence[Batch], vocabulary: int) -> dict[str, Pass]:
    """Return the loops of transformers' GPT-2, by name; the bare loop projects target positions."""

    def model() -> CausalLM:
        return CausalLM(CausalLMConfig(architecture=GPT2), _info(vocabulary))

    def plain(parts: int = 1) -> Pass:
        network: Any = model().network

        def cost(batch: Batch) -> Tensor:
            logits = network(input_ids=batch.inputs, use_cache=False, logits_to_keep=batch.gold.shape[1]).logits
            return cross_entropy(logits[batch.mask], batch.gold[batch.mask])

        return bare(network, batches, cost, parts)

    return _loops(model, plain, batches)


def _loops(model: Callable[[], nn.Module], plain: Callable[..., Pass], batches: Sequence[Batch]) -> dict[str, Pass]:
    options = {name: ours(model(), batches, **settings) for name, settings in OPTIONS.items()}
    return {
        "bare": plain(),
        "trainer": ours(model(), batches),
        "bare, repeated": plain(),
        **options,
        "bare, in 2 parts": plain(2),
        "bare, in 4 parts": plain(4),
        "observed": ours(model(), batches, observed=True),
    }


def _info(vocabulary: int) -> TaskInfo:
    return TaskInfo(vocabulary=[str(token) for token in range(vocabulary)])


def time_rounds(loops: Mapping[str, Pass], repeats: int) -> Rounds:
    """Return CPU seconds of all loops in `repeats` rounds, after an untimed warm-up round.

    Each round starts with a different loop, because preceding loops affect memory, and other load affects the clock.
    """
    times: dict[str, list[float]] = {name: [] for name in loops}
    names = [*loops]
    for number in range(repeats + 1):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            gc.collect()
            seconds = loops[name]()
            if number:
                times[name].append(seconds)
    return times


def row(
    name: str, times: Rounds, loop: str, baseline: str, updates: int, budget: float | None = None
) -> list[object]:
    """Return a table row; its ratio is the median of the ratios of all rounds."""
    ratios = [time / other for time, other in zip(times[loop], times[baseline], strict=True)]
    medians = [1e3 * median(times[each]) / updates for each in (loop, baseline)]
    return [name, *medians, median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}", budget or ""]


def table(times: Rounds, updates: int) -> str:
    """Return a table of loops relative to the bare loop, and options relative to the trainer without them."""
    rows = [
        row("trainer / bare loop", times, "trainer", "bare", updates, BUDGET),
        row("bare loop, repeated (noise)", times, "bare, repeated", "bare", updates),
    ]
    if "naive" in times:
        name = "all positions, mixed lengths, plain Adam / bare loop"
        rows.append(row(name, times, "naive", "bare", updates))
    for parts in ("in 2 parts", "in 4 parts"):
        rows += [
            row(f"trainer {parts} / bare loop {parts}", times, parts, f"bare, {parts}", updates, BUDGET),
            row(f"trainer {parts} / whole", times, parts, "trainer", updates),
            row(f"bare loop {parts} / whole", times, f"bare, {parts}", "bare", updates),
        ]
    for option in ("exponential average", "observed"):
        rows.append(row(f"trainer, {option} / without", times, option, "trainer", updates, OPTION_BUDGET))
    headers = ("what", "ms/update", "baseline, ms", "ratio", "range", "budget")
    return tabulate(rows, headers, tablefmt="github", floatfmt=("", ".1f", ".1f", ".3f", "", ".2f"))


def machine() -> str:
    """Return processor, threads and versions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, to test the script")
    quick = parser.parse_args().quick
    batches, size, repeats = (1, 8, 1) if quick else (2, ROWS, 5)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for network, full in (("LSTM", VOCABULARY), ("GPT-2", GPT2_VOCABULARY)):
        vocabulary = 1_000 if quick else full
        rows = sentences(batches * size, vocabulary)
        similar, mixed = bucketed(rows), batched(rows)
        loops = recurrent(similar, mixed, vocabulary) if network == "LSTM" else transformer(similar, vocabulary)
        width = f"{LAYERS} x {HIDDEN}" if network == "LSTM" else f"{GPT2['n_layer']} x {GPT2['n_embd']}"
        tokens = int(sum(batch.length.sum() for batch in similar))
        print(f"{network}, {width}, V = {vocabulary:,}: {batches} batches of {size} sentences, ", end="")
        print(f"{tokens:,} target tokens; {repeats} rounds. {machine()}.\n")
        print(f"{table(time_rounds(loops, repeats), batches)}\n")


if __name__ == "__main__":
    main()
