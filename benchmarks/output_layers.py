"""What output layers cost: `python benchmarks/output_layers.py [--quick]`.

A whole update (32 windows of 35 tokens, a 2 x 400 LSTM with sparse gradients of its embedding, Adam) and a decoding step
of 100 rows, of each output layer and of the full softmax in turns.
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
ROWS, WINDOW, DECODED = 32, 35, 100
CUTOFFS = {10_000: [2000], 33_278: [4000, 20_000], 267_735: [20_000, 60_000]}
BUDGETS = {  # at least so many times as fast as the full softmax: updates, and decoding steps
    (33_278, "ecoc-100"): (10.0, 2.0),
    (33_278, "ecoc-1000"): (None, 1.0),
    (267_735, "ecoc-100"): (60.0, 2.0),
}


def settings(tokens: int) -> dict[str, dict[str, Any]]:
    """Return what to build, the full softmax first."""
    cutoffs = CUTOFFS.get(tokens, [tokens // 5])
    return {
        "full": {"output": "full"},
        "sampled (S = 1000)": {"output": {"kind": "sampled", "samples": 1000}},
        "nce (k = 25)": {"output": {"kind": "nce", "samples": 25}},
        "hierarchical": {"output": {"kind": "hierarchical"}},
        "adaptive": {"output": {"kind": "adaptive", "cutoffs": cutoffs}},
        "ecoc-100": {"bits": 100, "order": "unigram"},
        "ecoc-1000": {"bits": 1000, "order": "unigram"},
    }


def built(tokens: int, wanted: dict[str, Any], hidden: int) -> ConditionalLM:
    """Return a model that is set up, for tokens whose counts follow Zipf's law."""
    kind: type[RecurrentConfig] = SoftmaxLMConfig if "output" in wanted else ECOCLMConfig
    config = kind.model_validate({"hidden": hidden, "embedding": hidden, "dropout": 0.2, **wanted})
    info = TaskInfo([str(token) for token in range(tokens)], [10_000_000 // (rank + 1) for rank in range(tokens)])
    model: ConditionalLM = config.load()(config, info)
    model.setup(info, Rng(1))
    return model


def window(tokens: int, turn: int) -> Batch:
    """Return windows of tokens, log-uniform in rank as Zipf's law has it."""
    ids = torch.arange(ROWS)
    drawn = Rng(turn).uniform(ids, 0, WINDOW + 1)
    stream = (float(tokens) ** drawn).long().clamp(max=tokens - 1)
    return Batch(ids, stream[:, :1], stream[:, 1:], ids * 0 + WINDOW)


@dataclass
class Contender:
    """A model, and what is timed of it."""

    model: ConditionalLM
    tokens: int

    def __post_init__(self) -> None:
        self.optimizers = optimizers(self.model, TrainingConfig(), torch.device("cpu"))
        self.turn = 0

    def update(self) -> None:
        self.model.train()
        self.turn += 1
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        training = Training(self.turn, 100, 0, 1, Rng(self.turn))
        torch.autograd.backward(self.model.loss(window(self.tokens, self.turn), training).value)
        for optimizer in self.optimizers:
            optimizer.step()

    def steps(self, number: int) -> Callable[[], None]:
        """Return greedy steps over rows that never end."""
        ids = torch.arange(DECODED)
        batch = Batch(ids, ids[:, None] * 0, ids[:, None] * 0, ids * 0 + 1)

        def run() -> None:
            self.model.eval()
            with torch.inference_mode():
                log_probs, state = self.model.start(batch)
                for _ in range(number):
                    log_probs, state = self.model.step(state, log_probs[:, 1:].argmax(1) + 1)

        return run


def seconds(run: Callable[[], None]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def in_turns(one: Callable[[], None], other: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Return the median time of both, after a turn that does not count."""
    pairs = [(seconds(one), seconds(other)) for _ in range(repeats + 1)][1:]
    return median(first for first, _ in pairs), median(second for _, second in pairs)


def rows(tokens: int, hidden: int, repeats: int, number: int) -> list[tuple[Any, ...]]:
    """Return the rows of the table for one vocabulary."""
    full, found = Contender(built(tokens, {"output": "full"}, hidden), tokens), []
    for name, wanted in settings(tokens).items():
        if wanted.get("bits", 0) > tokens:
            continue
        ours = full if name == "full" else Contender(built(tokens, wanted, hidden), tokens)
        update, plain = in_turns(ours.update, full.update, repeats)
        step, plain_step = (each / number for each in in_turns(ours.steps(number), full.steps(number), repeats))
        weights = sum(parameter.numel() for parameter in ours.model.head.parameters())
        faster, sooner = BUDGETS.get((tokens, name), (None, None))
        trained, decoded = (1e3 * update, plain / update, faster), (1e3 * step, plain_step / step, sooner)
        found.append((f"{tokens:,}", name, f"{weights:,}", *trained, *decoded))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small vocabulary and network, for a look")
    parser.add_argument("--tokens", type=int, nargs="+", default=VOCABULARIES, help="sizes of the vocabulary")
    told = parser.parse_args()
    sizes, hidden, repeats, number = (told.tokens, 400, 7, 5) if not told.quick else ((2000,), 64, 1, 2)
    torch.manual_seed(0)
    table = [row for tokens in sizes for row in rows(tokens, hidden, repeats, number)]
    headers = ("V", "output layer", "its weights", "update, ms", "times as fast", "at least")
    headers += ("step, ms", "times as fast", "at least")
    print(f"Beside the full softmax; medians of {repeats} turns. {machine()}.\n")
    print(tabulate(table, headers, tablefmt="github", floatfmt=".1f", missingval=""))


if __name__ == "__main__":
    main()
