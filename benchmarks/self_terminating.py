"""Measure the cost of self-termination: `python benchmarks/self_terminating.py [--quick]`.

Alternately times updates and decoding steps of the same LSTM with a softmax and with a self-terminating layer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter

import torch
from tabulate import tabulate
from torch import nn
from training import HIDDEN, LAYERS, PREFIX, VOCABULARY, bucketed, machine, sentences

from bench_core import Batch, Rng, TaskInfo, Training
from bench_rnn.lm import RecurrentLM
from bench_rnn.plugin import RNNLMConfig
from bench_strlm.plugin import SelfTerminatingRNNLMConfig
from bench_strlm.rnn import SelfTerminatingRNNLM

BUDGETS = {"update": 1.3, "decoding step": 1.15}


def updates(model: RecurrentLM, batches: Sequence[Batch]) -> Callable[[], None]:
    """Return a function that performs one update per batch."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    training = Training(0, 1, 0, 1, Rng(0))

    def run() -> None:
        for batch in batches:
            optimizer.zero_grad()
            torch.autograd.backward(model.loss(batch, training).value)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return run


def steps(model: RecurrentLM, rows: int, number: int) -> Callable[[], None]:
    """Return a function that performs greedy steps without EOS."""
    ids = torch.arange(rows)
    prompt = torch.cat([ids.new_zeros(rows, 1), 1 + ids[:, None].expand(-1, PREFIX)], 1)
    batch = Batch(ids, prompt, ids.new_zeros(rows, 1), ids.new_ones(rows))

    def run() -> None:
        with torch.inference_mode():
            log_probs, state = model.start(batch)
            for _ in range(number):
                log_probs, state = model.step(state, log_probs[:, 1:].argmax(1) + 1)

    return run


def ratios(run: Callable[[], None], plain: Callable[[], None], repeats: int) -> list[float]:
    """Return ratios of the running times of `run` to `plain`, timed alternately after an untimed warm-up."""
    values = []
    for _ in range(repeats + 1):
        times = []
        for work in (run, plain):
            start = perf_counter()
            work()
            times.append(perf_counter() - start)
        values.append(times[0] / times[1])
    return values[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, to test the script")
    quick = parser.parse_args().quick
    batches, decoded, number, repeats, vocabulary = (1, 50, 2, 1, 1_000) if quick else (6, 1000, 20, 8, VOCABULARY)
    torch.manual_seed(0)
    info = TaskInfo(vocabulary=[str(token) for token in range(vocabulary)])
    settings = {"hidden": HIDDEN, "layers": LAYERS, "dropout": 0.3}
    plain = RecurrentLM(RNNLMConfig.model_validate(settings), info)
    ours = SelfTerminatingRNNLM(SelfTerminatingRNNLMConfig.model_validate(settings), info)
    rows = bucketed(sentences(batches * 32, vocabulary))
    measured = {"update": ratios(updates(ours, rows), updates(plain, rows), repeats)}
    for model in (plain, ours):
        model.eval()
    measured["decoding step"] = ratios(steps(ours, decoded, number), steps(plain, decoded, number), repeats)
    table = [
        (name, median(values), f"{min(values):.2f} to {max(values):.2f}", BUDGETS[name])
        for name, values in measured.items()
    ]
    print(
        f"A self-terminating {LAYERS} x {HIDDEN} LSTM relative to the plain one, V = {vocabulary:,}; steps of {decoded:,} rows; ",
        end="",
    )
    print(f"medians of {repeats} runs. {machine()}.\n")
    print(tabulate(table, ("what", "ratio", "range", "budget"), tablefmt="github", floatfmt=".2f"))


if __name__ == "__main__":
    main()
