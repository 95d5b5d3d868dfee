"""Compare output layers with the full softmax: `python benchmarks/output_layers.py [--quick]`.

Each layer is measured alone, on two LSTMs and on a Transformer: CPU time of whole updates (32 windows of 35 tokens, Adam,
sparse embedding gradients), alternating with the full softmax; the increase in memory during the first update (gradients,
Adam's moments, intermediate results); and decoding steps of 100 rows. A second table compares the chunked cross-entropy
with torch's.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from statistics import median
from time import process_time
from typing import Any

import psutil
import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear
from training import machine

from bench_core import Batch, Rng, TaskInfo, Training
from bench_core.execution.stage_costs import measure_cost
from bench_ecoc.plugin import ECOCLMConfig, SoftmaxLMConfig
from bench_output_layers.api import OutputLayerLM, chunked_cross_entropy, output_layer
from bench_output_layers.plugin import TransformerLMConfig
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig

VOCABULARIES = (10_000, 33_278, 128_000)
ROWS, WINDOW, DECODING_ROWS = 32, 35, 100
CUTOFFS = {10_000: [2000], 33_278: [4000, 20_000], 128_000: [10_000, 40_000], 267_735: [20_000, 60_000]}
ALONE, SMALL_LSTM, LSTM, TRANSFORMER = "layer alone, H = 200", "2 x 200 LSTM", "2 x 400 LSTM", "4 x 256 Transformer"
WIDTHS = {ALONE: 200, SMALL_LSTM: 200, LSTM: 400, TRANSFORMER: 256}
BUDGETS = {  # minimum speed-up over the full softmax, of updates and of decoding steps
    (ALONE, 33_278, "100 bits"): (100.0, None),
    (SMALL_LSTM, 33_278, "100 bits"): (14.0, None),
    (LSTM, 33_278, "100 bits"): (10.0, 2.0),
    (LSTM, 33_278, "1000 bits"): (None, 1.0),
    (LSTM, 267_735, "100 bits"): (60.0, 2.0),
    (SMALL_LSTM, 267_735, "100 bits"): (60.0, None),
}
MAX_TIME, MAX_MEMORY = 1.3, 0.25  # chunked cross-entropy at V = 128,000, relative to torch's


def settings(tokens: int) -> dict[str, dict[str, Any]]:
    """Return the settings of each output layer, the full softmax first."""
    return {
        "full": {"kind": "full"},
        "sampled (S = 1000)": {"kind": "sampled", "samples": 1000},
        "nce (k = 25)": {"kind": "nce", "samples": 25},
        "hierarchical": {"kind": "hierarchical"},
        "adaptive": {"kind": "adaptive", "cutoffs": CUTOFFS.get(tokens, [tokens // 5])},
        "100 bits": {"kind": "codes", "bits": 100},
        "1000 bits": {"kind": "codes", "bits": 1000},
    }


class LayerAlone(OutputLayerLM):
    """An output layer whose states depend on nothing but the step."""

    def __init__(self, config: TransformerLMConfig, info: TaskInfo) -> None:
        super().__init__()
        self.states = nn.Parameter(torch.randn(WINDOW + 1, config.d_model))
        self.head = output_layer(config.output, config.d_model, len(info.vocabulary), sparse=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.states[: tokens.shape[1]].expand(len(tokens), -1, -1)


def build(network: str, tokens: int, output: dict[str, Any]) -> OutputLayerLM:
    """Return a model that is set up for Zipfian token counts."""
    width = WIDTHS[network]
    info = TaskInfo([str(token) for token in range(tokens)], [10_000_000 // (rank + 1) for rank in range(tokens)])
    model: OutputLayerLM
    if network in (ALONE, TRANSFORMER):
        config = TransformerLMConfig.model_validate({"d_model": width, "feed_forward": 4 * width, "output": output})
        model = (LayerAlone if network == ALONE else config.load())(config, info)
    else:
        lstm = {"hidden": width, "embedding": width, "dropout": 0.2}
        codes = output["kind"] == "codes"
        kind, more = (ECOCLMConfig, {"bits": output["bits"]}) if codes else (SoftmaxLMConfig, {"output": output})
        recurrent = kind.model_validate(lstm | more)
        model = recurrent.load()(recurrent, info)
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
    """A model, with the operations to measure."""

    model: OutputLayerLM
    tokens: int

    def __post_init__(self) -> None:
        self.optimizers = optimizers(self.model, TrainingConfig(), torch.device("cpu"))
        self.updates = 0
        self.mebibytes = added_memory(self.update)

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


def added_memory(run: Callable[[], None]) -> float:
    """Return the increase in memory during `run`, in MiB, at least 1; freed memory is returned to the system first."""
    gc.collect()
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)(0)
    before = psutil.Process().memory_info().rss / 2**20
    with measure_cost() as cost:
        run()
    return max(1.0, cost["peak_mib"] - before)


def seconds(run: Callable[[], None]) -> float:
    start = process_time()
    run()
    return process_time() - start


def alternate(run: Callable[[], None], plain: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Return the median CPU times of `run` and `plain`, after an uncounted warm-up run."""
    pairs = [(seconds(run), seconds(plain)) for _ in range(repeats + 1)][1:]
    return median(first for first, _ in pairs), median(second for _, second in pairs)


def rows(network: str, tokens: int, repeats: int, number: int) -> list[tuple[Any, ...]]:
    """Return the table rows of one network and vocabulary size."""
    full, table = Contender(build(network, tokens, {"kind": "full"}), tokens), []
    for name, output in settings(tokens).items():
        if output.get("bits", 0) > tokens:
            continue
        ours = full if name == "full" else Contender(build(network, tokens, output), tokens)
        update, plain = alternate(ours.update, full.update, repeats)
        step, plain_step = (each / number for each in alternate(ours.steps(number), full.steps(number), repeats))
        weights = sum(parameter.numel() for parameter in ours.model.head.parameters())
        update_budget, step_budget = BUDGETS.get((network, tokens, name), (None, None))
        memory = (ours.mebibytes, full.mebibytes / ours.mebibytes)
        updates, steps = (1e3 * update, plain / update, update_budget), (1e3 * step, plain_step / step, step_budget)
        table.append((name, f"{weights:,}", *updates, *memory, *steps))
    return table


def losses(tokens: int, repeats: int) -> tuple[Any, ...]:
    """Return the table row of the chunked cross-entropy and its gradients, relative to torch's."""
    hidden, gold = torch.randn(ROWS * WINDOW, 256, requires_grad=True), torch.arange(ROWS * WINDOW) % tokens
    layer = nn.Linear(256, tokens)

    def measured(costs: Callable[..., Tensor]) -> Callable[[], None]:
        def run() -> None:
            layer.zero_grad()
            torch.autograd.backward(costs(hidden, layer.weight, layer.bias).mean())

        return run

    plain = measured(lambda *numbers: cross_entropy(linear(*numbers), gold, reduction="none"))
    chunked = measured(lambda *numbers: chunked_cross_entropy(*numbers, gold))
    memory = [added_memory(run) for run in (chunked, plain)]
    times = alternate(chunked, plain, repeats)
    budgets = (MAX_TIME, MAX_MEMORY) if tokens == 128_000 else (None, None)
    return (f"{tokens:,}", *times, times[0] / times[1], budgets[0], *memory, memory[0] / memory[1], budgets[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use a tiny vocabulary, to test the script")
    parser.add_argument("--tokens", type=int, nargs="+", default=VOCABULARIES, help="vocabulary sizes")
    parser.add_argument("--networks", nargs="+", default=[*WIDTHS], choices=[*WIDTHS], help="networks to compare on")
    parser.add_argument("--repeats", type=int, default=5, help="number of timed runs")
    options = parser.parse_args()
    sizes, repeats, number = (options.tokens, options.repeats, 5) if not options.quick else ((2000,), 1, 2)
    torch.manual_seed(0)
    print(f"Medians of {repeats} runs, CPU time. {machine()}.\n")
    table = [losses(tokens, repeats) for tokens in sizes]
    headers = ["V", "chunked, s", "torch, s", "ratio", "budget", "chunked, MiB", "torch, MiB", "ratio", "budget"]
    print(tabulate(table, headers, tablefmt="github", floatfmt=".2f", missingval=""), flush=True)
    headers = ["output layer", "weights", "update, ms", "speed-up", "budget", "MiB", "saving"]
    headers += ["step, ms", "speed-up", "budget"]
    for network, tokens in product(options.networks, sizes):
        table = rows(network, tokens, repeats, number)
        print(f"\n{network}, V = {tokens:,}\n")
        print(tabulate(table, headers, tablefmt="github", floatfmt=".1f", missingval=""), flush=True)


if __name__ == "__main__":
    main()
