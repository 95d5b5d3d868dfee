"""Measure the cost of order search in training and of slots in decoding: `python benchmarks/insertion.py [--quick]`.

Prints two Markdown tables of ratios to a baseline run alternately in the same process: updates of InDIGO with searched
orders relative to left-to-right updates of the same model, and greedy decoding relative to a plain Transformer with the
same layers and relations. Weights are random, so a wrapper forbids EOS, and all rows have the same number of words.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor

from bench_core import STOP, Batch, ModelConfig, Rng, Stepper, TaskInfo, Training
from bench_decoders.plugin import GreedyConfig
from bench_indigo.plugin import IndigoConfig, TransformerConfig
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig

MEAN, SPREAD = 13, 6  # target lengths are MEAN ± SPREAD words
SIZES = ((64, 1_000, 10.0, 1.3), (256, 8_000, 7.0, 1.15))  # d, V, budgets of W = 8 and of decoding

Work = Callable[[], object]


@dataclass(frozen=True)
class ModelSizes:
    """The sizes of all models in a table."""

    width: int
    vocabulary: int

    @property
    def info(self) -> TaskInfo:
        names = ["<stop>", *map(str, range(1, self.vocabulary))]
        return TaskInfo(names, source_vocabulary=names)

    def model(self, kind: type[ModelConfig], **settings: Any) -> Any:
        sizes = {"d_model": self.width, "heads": 4, "layers": 2, "feed_forward": 4 * self.width}
        config = kind(**sizes, **settings)
        torch.manual_seed(0)
        return config.load()(config, self.info)

    def batch(self, rows: int) -> Batch:
        """Return targets of mixed lengths, with sources of the same lengths."""
        rng, ids = Rng(1), torch.arange(rows)
        words = MEAN - SPREAD + (rng.fork("length").uniform(ids) * (2 * SPREAD + 1)).long()
        steps = int(words.max()) + 1
        tokens = torch.pow(float(self.vocabulary - 1), rng.fork("words").uniform(ids, 0, steps)).long()  # Zipf's law
        gold = tokens.masked_fill(torch.arange(steps) >= words[:, None], STOP)
        return Batch(ids, torch.zeros(rows, 1).long(), gold, words + 1, gold.flip(1).roll(1, 1), words + 1)


class EndlessStepper(Stepper):
    """A wrapper that forbids EOS."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.actions_per_token = model.actions_per_token  # type: ignore[misc]

    def loss(self, batch: Batch, training: Any) -> Any:
        raise NotImplementedError

    def start(self, batch: Batch) -> tuple[Tensor, Any]:
        return self._forbid_end(*self.model.start(batch))

    def step(self, state: Any, actions: Tensor) -> tuple[Tensor, Any]:
        return self._forbid_end(*self.model.step(state, actions))

    def read(self, actions: list[int]) -> list[int]:
        tokens: list[int] = self.model.read(actions)
        return tokens

    def _forbid_end(self, log_probs: Tensor, state: Any) -> tuple[Tensor, Any]:
        log_probs[:, STOP] = -torch.inf
        return log_probs, state


def updates(model: Any, batch: Batch) -> Work:
    """Return a function that performs one update of a model."""
    model.train()
    optimizer_list = optimizers(model, TrainingConfig(), torch.device("cpu"))

    def run() -> None:
        model.zero_grad()
        model.loss(batch, Training(0, 1, 0, 1, Rng(2))).value.backward()
        for optimizer in optimizer_list:
            optimizer.step()

    return run


def decoding(model: Any, batch: Batch, words: int) -> Work:
    """Return a function that greedily decodes `words` words per row."""
    decoder = GreedyConfig(max_tokens=words).load()(GreedyConfig(max_tokens=words))
    endless = EndlessStepper(model.eval())

    def run() -> None:
        with torch.no_grad():
            decoder.decode(endless, batch, Rng(3))

    return run


def row(name: str, run: Work, plain: Work, repeats: int, budget: float | None = None) -> list[str]:
    """Return a table row: median times of `run` and `plain`, timed alternately, and their median ratio."""
    run()
    plain()
    pairs = []
    for number in range(repeats):
        order = (run, plain) if number % 2 else (plain, run)
        times = {work: _seconds(work) for work in order}
        pairs.append((times[run], times[plain]))
    ratios = [time / other for time, other in pairs]
    ours, baseline = (median(times) for times in zip(*pairs, strict=True))
    verdict = "" if budget is None else f"{budget:g}: {'met' if median(ratios) <= budget else 'not met'}"
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return [name, f"{1000 * ours:.1f}", f"{1000 * baseline:.1f}", f"{median(ratios):.2f}", spread, verdict]


def _seconds(run: Work) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def training_rows(setting: ModelSizes, rows: int, repeats: int, budget: float) -> list[list[str]]:
    """Return table rows of updates: W = 8, W = 8 with `orders: one`, and W = 1."""
    batch, what = setting.batch(rows), f"d = {setting.width}, V = {setting.vocabulary:,}: "
    plain = updates(setting.model(IndigoConfig, order="l2r"), batch)
    cases: list[tuple[str, dict[str, Any], float | None]] = [
        ("W = 8", {"beam": 8}, budget),
        ("W = 8, `orders: one`", {"beam": 8, "orders": "one"}, None),
        ("W = 1", {"beam": 1}, None),
    ]
    return [
        row(what + name, updates(setting.model(IndigoConfig, **settings), batch), plain, repeats, limit)
        for name, settings, limit in cases
    ]


def decoding_rows(setting: ModelSizes, words: int, repeats: int, budget: float) -> list[list[str]]:
    """Return the table rows for greedy decoding, with batches of 1 and 64."""
    lines = []
    for rows in (1, 64):
        batch = setting.batch(rows)
        indigo = decoding(setting.model(IndigoConfig, order="l2r", limit_ratio=0, limit_extra=words), batch, words)
        plain = decoding(
            setting.model(TransformerConfig, positions="relative", limit_ratio=0, limit_extra=words), batch, words
        )
        name = f"d = {setting.width}, V = {setting.vocabulary:,}, {rows} row{'s' if rows > 1 else ''}"
        lines.append(row(name, indigo, plain, repeats, budget))
    return lines


def table(lines: Sequence[Sequence[str]], baseline: str) -> str:
    """Return a Markdown table."""
    heads = ["what", "ms", f"{baseline}, ms", "ratio", "range", "budget"]
    return str(tabulate(lines, heads, tablefmt="github", disable_numparse=True))


def machine() -> str:
    """Return processor, threads and version of torch."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {torch.get_num_threads()} thread(s), torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, to test the script")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    rows, words, repeats, sizes = (2, 4, 1, SIZES[:1]) if quick else (32, 24, 5, SIZES)
    settings = [(ModelSizes(width, vocabulary), update, decode) for width, vocabulary, update, decode in sizes]
    print(f"Two layers of encoder and decoder, 4 heads. Medians of {repeats} runs. {machine()}.\n")
    lines = [line for setting, budget, _ in settings for line in training_rows(setting, rows, repeats, budget)]
    what = f"{rows} targets of {MEAN - SPREAD} to {MEAN + SPREAD} words"
    print(f"Updates on {what}; the loss uses all orders in the beam unless stated.\n\n{table(lines, 'l2r')}\n")
    lines = [line for setting, _, budget in settings for line in decoding_rows(setting, words, repeats, budget)]
    print(f"Greedy decoding of {words} words per row.\n\n{table(lines, 'plain Transformer')}")


if __name__ == "__main__":
    main()
