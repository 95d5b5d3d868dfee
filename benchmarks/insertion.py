"""What searching orders costs in training, and placing words in decoding: `python benchmarks/insertion.py [--quick]`.

Prints two Markdown tables of ratios to a run beside each in the same process: updates of InDIGO with searched orders
beside updates of the same model from left to right, and greedy decoding beside the plain Transformer of the same
layers and relations. Weights are random, so a wrapper forbids stop, and all rows take equally many words.
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

MEAN, SPREAD = 13, 6  # words of a target, give or take
SIZES = ((64, 1_000, 10.0, 1.3), (256, 8_000, 7.0, 1.15))  # d, V, and the budgets of W = 8 and of decoding

Work = Callable[[], object]


@dataclass(frozen=True)
class Setting:
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
        """Return targets of mixed lengths, and sources of as many words."""
        rng, ids = Rng(1), torch.arange(rows)
        words = MEAN - SPREAD + (rng.fork("length").uniform(ids) * (2 * SPREAD + 1)).long()
        steps = int(words.max()) + 1
        tokens = torch.pow(float(self.vocabulary - 1), rng.fork("words").uniform(ids, 0, steps)).long()  # Zipf's law
        gold = tokens.masked_fill(torch.arange(steps) >= words[:, None], STOP)
        return Batch(ids, torch.zeros(rows, 1).long(), gold, words + 1, gold.flip(1).roll(1, 1), words + 1)


class Endless(Stepper):
    """A model that never stops by itself."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.actions_per_token = model.actions_per_token  # type: ignore[misc]

    def loss(self, batch: Batch, training: Any) -> Any:
        raise NotImplementedError

    def start(self, batch: Batch) -> tuple[Tensor, Any]:
        return self._going(*self.model.start(batch))

    def step(self, state: Any, actions: Tensor) -> tuple[Tensor, Any]:
        return self._going(*self.model.step(state, actions))

    def read(self, actions: list[int]) -> list[int]:
        found: list[int] = self.model.read(actions)
        return found

    def _going(self, log_probs: Tensor, state: Any) -> tuple[Tensor, Any]:
        log_probs[:, STOP] = -torch.inf
        return log_probs, state


def updates(model: Any, batch: Batch) -> Work:
    """Return one update of a model."""
    model.train()
    steppers = optimizers(model, TrainingConfig(), torch.device("cpu"))

    def run() -> None:
        model.zero_grad()
        model.loss(batch, Training(0, 1, 0, 1, Rng(2))).value.backward()
        for stepper in steppers:
            stepper.step()

    return run


def decoding(model: Any, batch: Batch, words: int) -> Work:
    """Return greedy decoding of so many words a row."""
    decoder = GreedyConfig(max_tokens=words).load()(GreedyConfig(max_tokens=words))
    endless = Endless(model.eval())

    def run() -> None:
        with torch.no_grad():
            decoder.decode(endless, batch, Rng(3))

    return run


def row(name: str, run: Work, plain: Work, repeats: int, budget: float | None = None) -> list[str]:
    """Return a line of a table: seconds of both, in turns that go first in turn, and the median of their ratios."""
    run()
    plain()
    turns = []
    for turn in range(repeats):
        order = (run, plain) if turn % 2 else (plain, run)
        times = {work: _timed(work) for work in order}
        turns.append((times[run], times[plain]))
    ratios = [one / other for one, other in turns]
    own, beside = (median(times) for times in zip(*turns, strict=True))
    verdict = "" if budget is None else f"{budget:g}: {'met' if median(ratios) <= budget else 'not met'}"
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return [name, f"{1000 * own:.1f}", f"{1000 * beside:.1f}", f"{median(ratios):.2f}", spread, verdict]


def _timed(run: Work) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def training_rows(setting: Setting, rows: int, repeats: int, budget: float) -> list[list[str]]:
    """Return lines on updates: eight searched orders, one of eight, and a search for one."""
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


def decoding_rows(setting: Setting, words: int, repeats: int, budget: float) -> list[list[str]]:
    """Return lines on greedy decoding of one row and of 64."""
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


def table(lines: Sequence[Sequence[str]], beside: str) -> str:
    """Return Markdown."""
    heads = ["what", "ms", f"{beside} beside it", "ratio", "in single turns", "budget"]
    return str(tabulate(lines, heads, tablefmt="github", disable_numparse=True))


def machine() -> str:
    """Return what this runs on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {torch.get_num_threads()} thread(s), torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a small network, fewer rows, words and turns, for a look"
    )
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    rows, words, repeats, sizes = (2, 4, 1, SIZES[:1]) if quick else (32, 24, 5, SIZES)
    settings = [(Setting(width, vocabulary), update, decode) for width, vocabulary, update, decode in sizes]
    print(f"Two layers of encoder and decoder, 4 heads. Medians of {repeats} turns. {machine()}.\n")
    lines = [line for setting, budget, _ in settings for line in training_rows(setting, rows, repeats, budget)]
    what = f"{rows} targets of {MEAN - SPREAD} to {MEAN + SPREAD} words"
    print(f"Updates on {what}, all orders that are found in the loss unless stated.\n\n{table(lines, 'l2r')}\n")
    lines = [line for setting, _, budget in settings for line in decoding_rows(setting, words, repeats, budget)]
    print(f"Greedy decoding of {words} words a row.\n\n{table(lines, 'plain Transformer')}")


if __name__ == "__main__":
    main()
