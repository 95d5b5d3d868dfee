"""Measure the cost of deep state space models: `python benchmarks/state_space.py [--quick]`.

Measures P(w) of as many types as in the paper; updates relative to their matrix products and triangular solves alone,
and to updates with `compile: true`; and updates of ten vmapped seeds (`training: {vmap_seeds: true}`), each with its own
batch: their CPU time relative to separate updates, and their torch calls relative to one seed, because calls dominate
the updates of such small models on a GPU. `--quick` skips compilation, which takes minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from statistics import median
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any

import psutil
import torch
from tabulate import tabulate
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from training import machine

from bench_core import Batch, Rng, Scoring, TaskInfo, Training
from bench_ssm.model import DeepSSM
from bench_ssm.plugin import DeepSSMConfig
from bench_training.clipping import clip_copies
from bench_training.settings import Clip
from bench_training.vmapped import Stack, stacked

TYPES, LETTERS, SEEDS = 143_000, 26, 10
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "linalg_solve_triangular"}
PAPER = DeepSSMConfig(generative="2xtril", samples=10)
SINGLE = DeepSSMConfig()  # one proposal per step
TOGETHER = {
    "10^5 weights": DeepSSMConfig(reader=160),
    "10^5 weights, K = 10": DeepSSMConfig(generative="2xtril", samples=10, reader=160),
    "K = 10": PAPER,
}
BUDGETS = {
    "P(w), seconds": "at most 5",
    "P(w), MB": "at most 500",
    "update / matrix products": "at most 4",
    "10 seeds vmapped / separate, 10^5 weights": "at most 0.45",
    "10 seeds vmapped / separate, 10^5 weights, K = 10": "at most 0.45",
    "calls, 10 seeds vmapped / one, 10^5 weights": "at most 2",
    "plain update / compiled, K = 10": "at least 1.5",
}


def words(number: int) -> Batch:
    """Return distinct words of 2 to 12 letters, alternating consonants and vowels so that many share prefixes."""
    generator = torch.Generator().manual_seed(0)
    size = 3 * number
    length = torch.randint(2, 13, (size,), generator=generator).minimum(
        torch.randint(4, 13, (size,), generator=generator)
    )
    letters = 1 + (torch.rand(size, 13, generator=generator).square() * LETTERS).long()
    vowels = 1 + (torch.rand(size, 13, generator=generator) * 5).long()
    letters = letters.where((torch.arange(13) + letters[:, :1]) % 2 == 0, vowels)
    gold = torch.unique(letters * (torch.arange(13) < length[:, None]), dim=0)
    gold = gold[torch.randperm(len(gold), generator=generator)[:number]]
    return Batch(torch.arange(len(gold)), gold[:, :1] * 0, gold, (gold > 0).sum(1) + 1)


class MemoryMonitor:
    """Samples the additional memory of the process every 5 ms; `peak` is its maximum in bytes."""

    def __enter__(self) -> MemoryMonitor:
        self.peak, self.done = 0, Event()
        self.thread = Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.thread.join()

    def _watch(self) -> None:
        process = psutil.Process()
        before = process.memory_info().rss
        while not self.done.wait(0.005):
            self.peak = max(self.peak, process.memory_info().rss - before)


class CallRecorder(TorchDispatchMode):
    """Counts calls of torch, and records matrix products and triangular solves with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.products: list[tuple[Any, list[Any], dict[str, Any]]] = []

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.calls += not call.is_view  # views compute nothing
        if call.overloadpacket.__name__ in PRODUCTS:
            copies = [each.detach().clone() if isinstance(each, Tensor) else each for each in args]
            self.products.append((call, copies, kwargs))
        return call(*args, **kwargs)


def update(model: DeepSSM, batch: Batch, compiled: bool = False) -> Callable[[], None]:
    """Return a function that updates the model on a batch."""
    optimizer, steps = torch.optim.Adam(model.parameters(), 1e-3, fused=True), count()
    loss = model.compiled_loss() if compiled else model.loss

    def run() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss(batch, Training(next(steps), 10_000, 0, 1, Rng(0))).value)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    return run


def joint_update(models: Sequence[DeepSSM], batches: Sequence[Batch]) -> Callable[[], None]:
    """Return a function that updates vmapped models, each on its own batch."""
    stack, keys = Stack(models), [*range(len(models))]
    optimizer, steps = torch.optim.Adam(stack.parameters(), 1e-3, fused=True), count()
    weights, clip = [*stack.parameters()], Clip(norm=5.0)

    def run() -> None:
        optimizer.zero_grad()
        losses = stack.losses(stacked(batches), Training(next(steps), 10_000, 0, 1, Rng(0)), keys).value
        torch.autograd.backward(losses, torch.ones_like(losses))
        clip_copies(weights, clip)
        optimizer.step()

    return run


def joint_ratios(
    config: DeepSSMConfig, info: TaskInfo, batches: Sequence[Batch], repeats: int
) -> tuple[list[float], float]:
    """Return time ratios of vmapped to separate updates, and the ratio of torch calls for all seeds to one seed."""
    alone = [update(DeepSSM(config, info), batch) for batch in batches]
    together = joint_update([DeepSSM(config, info) for _ in batches], batches)
    calls = []
    for run in (together, alone[0]):
        with CallRecorder() as recorder:
            run()
        calls.append(recorder.calls)
    values = [cpu(together) / sum(map(cpu, alone)) for _ in range(repeats + 1)]
    return values[1:], calls[0] / calls[1]


def compiled_ratios(
    config: DeepSSMConfig, info: TaskInfo, batches: Sequence[Batch], repeats: int
) -> tuple[list[float], float]:
    """Return time ratios of plain to compiled updates, and the total seconds of compilation."""
    torch.compiler.reset()
    model = DeepSSM(config, info)
    plain = [update(DeepSSM(config, info), batch) for batch in batches]
    compiled = [update(model, batch, True) for batch in batches]
    compiling = sum(map(seconds, compiled))
    values = [sum(map(cpu, plain)) / sum(map(cpu, compiled)) for _ in range(repeats + 1)]
    return values[1:], compiling


def seconds(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def cpu(run: Callable[[], object]) -> float:
    """Return the CPU seconds of a run, which are robust to other load."""
    start = process_time()
    run()
    return process_time() - start


def ratios(model: DeepSSM, batch: Batch, repeats: int) -> list[float]:
    """Return time ratios of updates to their matrix products alone, for updates that write no log."""
    run = update(model, batch)
    run()  # writes the log, as every tenth update does
    with CallRecorder() as recorder:
        run()

    def products() -> None:
        with torch.no_grad():
            for call, args, kwargs in recorder.products:
                call(*args, **kwargs)

    def ratio() -> float:
        return sum(seconds(run) for _ in range(10)) / sum(seconds(products) for _ in range(10))

    return [ratio() for _ in range(repeats + 1)][1:]


def costs_of_scores(model: DeepSSM, types: Batch) -> Mapping[str, list[float]]:
    """Return the seconds and MB for computing P(w) of all types, in three runs."""
    times, memory = [], []
    for seed in range(3):
        with torch.inference_mode(), MemoryMonitor() as monitor:
            times.append(seconds(partial(model.score, types, Scoring("trajectories", Rng(seed)))))
        memory.append(monitor.peak / 2**20)
    return {"P(w), seconds": times, "P(w), MB": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use tiny sizes without compilation, to test the script")
    quick = parser.parse_args().quick
    number, rows, repeats = (200, 20, 1) if quick else (TYPES, 128, 11)
    torch.manual_seed(0)
    info = TaskInfo(["</w>", *map(chr, range(97, 97 + LETTERS))])
    model, types = DeepSSM(PAPER, info), words(number)
    batches = [types.select(rows * seed + torch.arange(rows)) for seed in range(SEEDS)]
    values = {**costs_of_scores(model, types), "update / matrix products": ratios(model, batches[0], repeats)}
    for name, config in TOGETHER.items():
        values[f"10 seeds vmapped / separate, {name}"], calls = joint_ratios(config, info, batches, repeats)
        values[f"calls, 10 seeds vmapped / one, {name}"] = [calls]
    if not quick:
        for name, config in {"K = 10": PAPER, "K = 1": SINGLE}.items():
            values[f"plain update / compiled, {name}"], compiling = compiled_ratios(config, info, batches, repeats)
            values[f"compilation, seconds, {name}"] = [compiling]
    table = [
        (name, median(each), f"{min(each):.2f} to {max(each):.2f}", BUDGETS.get(name, ""))
        for name, each in values.items()
    ]
    weights = sum(each.numel() for each in DeepSSM(TOGETHER["10^5 weights"], info).parameters())
    print(
        f"2xTRIL with d = 8, K = 10 (P(w), products): {len(types):,} types by 10,000 trajectories; updates of {rows}. "
    )
    print(f"10^5 weights: a reader of 160 units ({weights:,}). {machine()}.\n")
    print(tabulate(table, ("what", "median", "range", "budget"), tablefmt="github", floatfmt=".2f"))


if __name__ == "__main__":
    main()
