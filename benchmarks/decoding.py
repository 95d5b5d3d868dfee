"""Compare decoders with plain loops over the same model: `python benchmarks/decoding.py [--quick]`.

The model is an LSTM with random weights and Zipfian token frequencies; each row ends after its own number of tokens.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor, nn

from bench_core import Batch, DecoderConfig, Rng, State, Stepper
from bench_decoders.plugin import BeamConfig, GreedyConfig, NucleusConfig, TopKConfig

MEAN_LENGTH, MAX_TOKENS, WIDTH = 25, 1500, 4


@dataclass(frozen=True)
class Countdown(State):
    units: tuple[Tensor, Tensor]  # [N, L, H] hidden states and cells
    left: Tensor  # [N] tokens before EOS


class ZipfLSTM(nn.Module, Stepper[Countdown]):
    """Two layers of 256 units; EOS is certain at the end of a row, and impossible before."""

    def __init__(self, vocabulary: int, hidden: int = 256, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, hidden)
        self.rnn = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.project = nn.Linear(hidden, vocabulary)
        for weight in self.rnn.parameters():
            nn.init.normal_(weight, std=0.2)  # activations that vary
        nn.init.normal_(self.project.weight, std=0.6)  # distributions as peaked as in a trained model
        self.project.bias.data = -torch.arange(1.0, vocabulary + 1).log()

    def loss(self, batch: Batch, training: Any) -> Any:
        raise NotImplementedError

    def start(self, batch: Batch) -> tuple[Tensor, Countdown]:
        return self._next(batch.prompt, None, batch.extras["left"])

    def step(self, state: Countdown, actions: Tensor) -> tuple[Tensor, Countdown]:
        return self._next(actions[:, None], state.units, state.left - 1)

    def _next(self, tokens: Tensor, units: tuple[Tensor, Tensor] | None, left: Tensor) -> tuple[Tensor, Countdown]:
        h, c = units or (None, None)
        past = None if h is None or c is None else (h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous())
        hidden, (h, c) = self.rnn(self.embed(tokens), past)
        logits = self.project(hidden[:, -1])
        logits[:, 0] = torch.where(left > 0, -torch.inf, 50.0)
        return logits.log_softmax(1), Countdown((h.transpose(0, 1), c.transpose(0, 1)), left)


def examples(left: Tensor) -> Batch:
    """Return rows that end after `left` [N] tokens, with distinct first tokens."""
    ids = torch.arange(len(left))
    prompt = torch.stack([torch.zeros_like(ids), ids + 1], 1)
    return Batch(ids, prompt, torch.zeros_like(prompt), torch.ones_like(ids), extras={"left": left})


def endless(number: int) -> Batch:
    return examples(torch.full((number,), MAX_TOKENS))


def geometric(number: int) -> Tensor:
    """Return numbers of tokens before EOS [N]; including EOS, their mean is about MEAN_LENGTH."""
    uniform = Rng(0).fork("lengths").uniform(torch.arange(number))
    return (uniform.log() / torch.tensor(1 - 1 / MEAN_LENGTH).log()).long().clamp(max=MAX_TOKENS - 1)


def plain_loop(model: ZipfLSTM, number: int, steps: int) -> None:
    """Take the most probable token `steps` times in all rows."""
    log_probs, state = model.start(endless(number))
    for _ in range(steps - 1):
        log_probs, state = model.step(state, log_probs.argmax(1))
    log_probs.argmax(1)


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def relative(work: Callable[[], object], share: float, plain: Callable[[], object], repeats: int) -> list[float]:
    """Return ratios of the time of `work` to `share` times the time of `plain`, which runs immediately before."""
    work()
    ratios = []
    for _ in range(repeats):
        base = seconds(plain)
        ratios.append(seconds(work) / (share * base))
    return ratios


def report(vocabulary: int, number: int, steps: int, repeats: int) -> str:
    model = ZipfLSTM(vocabulary).eval()

    def decode(config: DecoderConfig, batch: Batch) -> Callable[[], object]:
        return lambda: config.load()(config).decode(model, batch, Rng(1))

    def plain() -> None:
        plain_loop(model, number, steps)

    left = geometric(number)
    useful = int(left.sum()) + number  # tokens, including EOS
    beams = number // WIDTH + number * (steps - 1)  # a beam starts with one hypothesis per row
    each = number * steps  # row steps of the plain loop
    cases = [
        (f"greedy rows, mean length {useful / number:.1f}", GreedyConfig(max_tokens=MAX_TOKENS), left, useful, 1.25),
        ("greedy step", GreedyConfig(max_tokens=steps), None, each, None),
        ("top-k step (k = 4)", TopKConfig(k=4, max_tokens=steps), None, each, 1.2),
        ("nucleus step (mass 0.4)", NucleusConfig(mass=0.4, max_tokens=steps), None, each, 1.5),
        ("nucleus step (mass 0.9)", NucleusConfig(mass=0.9, max_tokens=steps), None, each, None),
        (f"beam-{WIDTH} step, per live hypothesis", BeamConfig(width=WIDTH, max_tokens=steps), None, beams, 1.3),
    ]
    lines = []
    for what, config, lengths, rows, budget in cases:
        size = number // WIDTH if isinstance(config, BeamConfig) else number
        batch = endless(size) if lengths is None else examples(lengths)
        ratios = relative(decode(config, batch), rows / each, plain, repeats)
        verdict = "" if budget is None else "yes" if median(ratios) <= budget else "no"
        lines.append([what, f"{median(ratios):.2f}", f"{min(ratios):.2f}-{max(ratios):.2f}", budget, verdict])
    heads = ["decoder", "time / plain loop", "range", "budget", "within"]
    return str(tabulate(lines, heads, tablefmt="github", disable_numparse=True, missingval=""))


def machine() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    processor = names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()
    return f"{processor}, threads: {torch.get_num_threads()}, torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, to test the script")
    quick = parser.parse_args().quick
    vocabulary, number, steps, repeats = (1_000, 40, 3, 1) if quick else (33_000, 1_000, 6, 5)
    torch.manual_seed(0)
    print(
        f"Plain loop: start, step and argmax over a full batch of {number:,} rows, V = {vocabulary:,}, LSTM of "
        f"2 x 256. Times are per row and step, medians of {repeats} runs, each paired with a run of the plain loop.\n{machine()}.\n"
    )
    with torch.no_grad():
        print(report(vocabulary, number, steps, repeats))


if __name__ == "__main__":
    main()
