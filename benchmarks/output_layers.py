"""Compare output layers with the full softmax: `python benchmarks/output_layers.py [--quick]`.

Times whole updates (32 windows of 35 tokens, a 2 x 400 LSTM with sparse embedding gradients, Adam) and decoding steps of
100 rows, alternating with the full softmax.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
from tabulate import tabulate
from training import machine

from bench_core import Batch, Rng, TaskInfo, Training
from bench_ecoc.model import ConditionalLM
from bench_ecoc.plugin import ECOCLMConfig, RecurrentConfig, SoftmaxLMConfig
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig

VOCABULARIES = (10_000, 33_278, 267_735)
ROWS, WINDOW, DECODING_ROWS = 32, 35, 100
CUTOFFS = {10_000: [2000], 33_278: [4000, 20_000], 267_735: [20_000, 60_000]}
BUDGETS = {  # minimum speed-up over the full softmax, of updates and of decoding steps
    (33_278, "ecoc-100"): (10.0, 2.0),
    (33_278, "ecoc-1000"): (None, 1.0),
    (267_735, "ecoc-100"): (60.0, 2.0),
}


def settings(tokens: int) -> dict[str, dict[str, Any]]:
    """Return the settings of each output layer, the full softmax first."""
    cutoffs = CUTOFFS.get(tokens, [tokens // 5])
    return {
        "full": {"output": "full"},
        "sampled (S = 1000)": {"output": {"kind": "sampled", "samples": 1000}},
        "nce (k = 25)": {"output": {"kind": "nce", "samples": 25}},
        "hierarchical": {"output": {"kind": "hierarchical"}},
        "adaptive": {"output": {"kind": "adaptive", "cutoffs": cutoffs}},
        "ecoc-100": {"bits": 100},
        "ecoc-1000": {"bits": 1000},
    }


def build(tokens: int, output: dict[str, Any], hidden: int) -> ConditionalLM:
    """Return a model that is set up for Zipfian token counts."""
    kind: type[RecurrentConfig] = SoftmaxLMConfig if "output" in output else ECOCLMConfig
    config = kind.model_validate({"hidden": hidden, "embedding": hidden, "dropout": 0.2, **output})
    info = TaskInfo([str(token) for token in range(tokens)], [10_000_000 // (rank + 1) for rank in range(tokens)])
    model: ConditionalLM = config.load()(config, info)
    model.setup(info, Rng(1))
    return model


def window(tokens: int, seed: int) -> Batch:
    """Return windows of Zipfian tokens, whose ranks are log-uniform."""
    ids = torch.arange(ROWS)
    uniform = Rng(seed).uniform(ids, 0, WINDOW + 1)
    stream = (float(tokens) ** uniform).long().clamp(max=tokens - 1)
    return Batch(ids, stream[:, :1], stream[:, 1:], ids * 0 + WINDOW)


@dataclass
class Contender:
    """A model, with the operations to time."""

    model: ConditionalLM
    tokens: int

    def __post_init__(self) -> None:
        self.optimizers = optimizers(self.model, TrainingConfig(), torch.device("cpu"))
        self.updates = 0

    def update(self) -> None:
        self.model.train()
        self.updates += 1
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        training = Training(self.updates, 100, 0, 1, Rng(self.updates))
        torch.autograd.backward(self.model.loss(window(self.tokens, self.updates), training).value)
        for optimizer in self.optimizers:
            optimizer.step()

    def steps(self, number: int) -> Callable[[], None]:
        """Return a function that performs greedy steps without EOS."""
        ids = torch.arange(DECODING_ROWS)
        batch = Batch(ids, ids[:, None] * 0, ids[:, None] * 0, ids * 0 + 1)

        def run() -> None:
            self.model.eval()
            with torch.inference_mode():
                log_probs, state = self.model.start(batch)
                for _ in range(number):
                    log_probs, state = self.model.step(state, log_probs[:, 1:].argmax(1) + 1)

        return run


def seconds(run: Callable[[], None]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def alternate(run: Callable[[], None], plain: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Return the median times of `run` and `plain`, timed alternately after an untimed warm-up."""
    pairs = [(seconds(run), seconds(plain)) for _ in range(repeats + 1)][1:]
    return median(first for first, _ in pairs), median(second for _, second in pairs)


def rows(tokens: int, hidden: int, repeats: int, number: int) -> list[tuple[Any, ...]]:
    """Return the table rows for one vocabulary size."""
    full, table = Contender(build(tokens, {"output": "full"}, hidden), tokens), []
    for name, output in settings(tokens).items():
        if output.get("bits", 0) > tokens:
            continue
        ours = full if name == "full" else Contender(build(tokens, output, hidden), tokens)
        update, plain = alternate(ours.update, full.update, repeats)
        step, plain_step = (each / number for each in alternate(ours.steps(number), full.steps(number), repeats))
        weights = sum(parameter.numel() for parameter in ours.model.head.parameters())
        update_budget, step_budget = BUDGETS.get((tokens, name), (None, None))
        updates, steps = (1e3 * update, plain / update, update_budget), (1e3 * step, plain_step / step, step_budget)
        table.append((f"{tokens:,}", name, f"{weights:,}", *updates, *steps))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, to test the script")
    parser.add_argument("--tokens", type=int, nargs="+", default=VOCABULARIES, help="vocabulary sizes")
    options = parser.parse_args()
    sizes, hidden, repeats, number = (options.tokens, 400, 7, 5) if not options.quick else ((2000,), 64, 1, 2)
    torch.manual_seed(0)
    table = [row for tokens in sizes for row in rows(tokens, hidden, repeats, number)]
    headers = ("V", "output layer", "weights", "update, ms", "speed-up", "budget")
    headers += ("step, ms", "speed-up", "budget")
    print(f"Speed-up over the full softmax; medians of {repeats} runs. {machine()}.\n")
    print(tabulate(table, headers, tablefmt="github", floatfmt=".1f", missingval=""))


if __name__ == "__main__":
    main()
