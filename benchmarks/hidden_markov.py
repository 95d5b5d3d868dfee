"""Measure the forward algorithm of `hmm-lm`, with its gradient: `python benchmarks/hidden_markov.py [--quick]`.

Alternates a loss and its gradient on 128 words with the matrix products that they require: one per step, and two for its
gradient. CPU times of one thread. `--quick` tests the script.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import process_time

import torch
from state_space import LETTERS, words
from tabulate import tabulate
from training import machine

from bench_core import Batch, Rng, TaskInfo, Training
from bench_ssm.hmm import HiddenMarkovLM
from bench_ssm.plugin import HiddenMarkovConfig

ROWS = 128
BUDGETS = {256: "at most 25"}


def milliseconds(run: Callable[[], object]) -> float:
    """Return the CPU time of a run, which is robust to other load."""
    start = process_time()
    run()
    return 1e3 * (process_time() - start)


def gradient(model: HiddenMarkovLM, batch: Batch) -> Callable[[], None]:
    """Return a function that computes a loss and its gradient."""

    def run() -> None:
        model.zero_grad()
        torch.autograd.backward(model.loss(batch, Training(0, 1, 0, 1, Rng(0))).value)

    return run


def products(states: int, steps: int) -> Callable[[], None]:
    """Return a function that multiplies states by transitions at all steps, and does so twice for the gradient."""
    rows, matrix = torch.rand(ROWS, states), torch.rand(states, states)

    def run() -> None:
        for _ in range(steps):
            rows @ matrix, rows @ matrix.T, rows.T @ rows

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use few states and repeats, to test the script")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sizes, repeats = ((8,), 2) if quick else ((8, 64, 256, 512), 21)
    batch = words(ROWS)
    info = TaskInfo(["</w>", *map(chr, range(97, 97 + LETTERS))])
    table = []
    for states in sizes:
        config = HiddenMarkovConfig(states=states)
        run, least = gradient(HiddenMarkovLM(config, info), batch), products(states, batch.gold.shape[1])
        run()
        times = [(milliseconds(run), milliseconds(least)) for _ in range(repeats)]
        whole, alone = (median(each) for each in zip(*times, strict=True))
        table.append((states, whole, min(each for each, _ in times), alone, BUDGETS.get(states, "")))
    print(f"{ROWS} words of 4 to 12 letters, {batch.gold.shape[1]} steps. {machine()}.\n")
    print(
        tabulate(
            table, ("states", "ms, median", "ms, least", "products, ms", "budget"), tablefmt="github", floatfmt=".1f"
        )
    )


if __name__ == "__main__":
    main()
