"""Measure the cost of checking the results of parts: `python benchmarks/guards.py [--quick]`; prints a Markdown table.

Decoding: the core's loop takes the most probable token of an LSTM that never ends; checks are timed in place.
Training: the time of checking a batch and a loss, relative to an update of the quickstart's LSTM. All are medians.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median, quantiles
from time import perf_counter_ns, process_time
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor

from bench_core import STOP, Batch, Rng, TaskInfo, Training, generate
from bench_core.computing.evaluate import CHECK_INTERVAL
from bench_core.computing.guarded_log_probs import guarded, replaced
from bench_core.computing.guarded_tasks import misfit
from bench_core.computing.result_checks import check_loss
from bench_core.kit import LanguageModelState
from bench_rnn.lm import RecurrentLM
from bench_rnn.plugin import RNNLMConfig

BUDGET = 0.02
ROWS, PROMPT = 32, 10


class EndlessLM(RecurrentLM):
    """A language model that never predicts EOS."""

    def _next(self, *args: object) -> tuple[Tensor, LanguageModelState]:
        log_probs, state = super()._next(*args)  # type: ignore[arg-type]
        return log_probs.index_fill(1, log_probs.new_tensor([STOP], dtype=torch.long), -torch.inf), state


def batch_of(rows: int, tokens: int, vocabulary: int) -> Batch:
    """Return rows of Zipfian tokens with a prompt."""
    ids = torch.arange(rows)
    words = float(vocabulary - 1) ** Rng(1).uniform(ids, 0, PROMPT + tokens)
    prompt = torch.nn.functional.pad(words.long()[:, :PROMPT], (1, 0))
    gold = torch.nn.functional.pad(words.long()[:, PROMPT:-1], (0, 1))
    return Batch(ids, prompt, gold, torch.full_like(ids, tokens))


def cpu(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start


class CallClock:
    """Sums the time spent in calls of functions."""

    def __init__(self) -> None:
        self.total = 0

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            start = perf_counter_ns()
            result = work(*args)
            self.total += perf_counter_ns() - start
            return result

        return call


def step(vocabulary: int, rows: int, steps: int, repeats: int, thorough: bool = False) -> list[object]:
    """Return a table row: the time of a step, and the relative time of its checks, timed in place."""
    info = TaskInfo([str(word) for word in range(vocabulary)])
    model = EndlessLM(RNNLMConfig(hidden=128, layers=2), info).eval()
    batch, clocks = batch_of(rows, 1, vocabulary), (CallClock(), CallClock(), CallClock())
    whole, inside, outside = clocks  # everything; the guarded model; the model alone

    def decode() -> None:
        methods = {name: outside.timed(getattr(model, name)) for name in ("start", "step", "limit", "read")}
        with ExitStack() as stack:
            stack.enter_context(replaced(vars(model), methods))
            stack.enter_context(guarded(model, vocabulary, thorough, 1 if thorough else CHECK_INTERVAL))
            methods = {name: inside.timed(getattr(model, name)) for name in methods}
            stack.enter_context(replaced(vars(model), methods))
            whole.timed(generate)(model, batch, lambda log_probs, ids, step: log_probs.argmax(1), steps)

    decode()
    shares, times = [], []
    for _ in range(repeats):
        whole.total = inside.total = outside.total = 0
        decode()
        checks = inside.total - outside.total
        times.append((whole.total - checks) / steps / 1e3)
        shares.append(checks / (whole.total - checks))
    first = "step of the first batch" if thorough else "step"
    return [f"{first}, {rows} rows, V = {vocabulary:,}", f"{median(times):,.0f}", *summary(sorted(shares))]


def update(vocabulary: int, tokens: int, repeats: int) -> list[object]:
    """Return a table row: the time of an update of the quickstart's LSTM, and the relative time of its checks."""
    info = TaskInfo([str(word) for word in range(vocabulary)])
    model = RecurrentLM(RNNLMConfig(cell="lstm", hidden=128, layers=2, dropout=0.1), info)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    batch, training = batch_of(ROWS, tokens, vocabulary), Training(0, 1, 0, 1, Rng(0))
    loss = model.loss(batch, training)

    def learn() -> None:
        optimizer.zero_grad(set_to_none=True)
        model.loss(batch, training).value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def check() -> None:
        for _ in range(100):
            misfit(batch, info)
            check_loss(loss, model)
            bool((loss.weight > 0) & (loss.weight < torch.inf))

    learn(), check()
    pairs = [(cpu(learn), cpu(check) / 100) for _ in range(repeats)]
    whole = median(learned for learned, _ in pairs)
    return [
        f"update, {ROWS} rows of {tokens} tokens, V = {vocabulary:,}",
        f"{whole * 1e6:,.0f}",
        *summary(sorted(checked / whole for _, checked in pairs)),
    ]


def summary(shares: list[float]) -> tuple[str, str, str]:
    """Return the median and the interquartile range of sorted shares, and whether the median is within the budget."""
    low, middle, high = quantiles(shares, n=4)
    return f"{100 * middle:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}", "yes" if middle < BUDGET else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use fewer steps and runs, to test the script")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    torch.manual_seed(0)
    steps, repeats = (20, 5) if quick else (64, 31)
    with torch.inference_mode():
        table = [step(words, rows, steps, repeats) for words in (1_000, 5_000, 20_000) for rows in (32, 128)]
        table += [step(5_000, 128, steps, repeats, thorough=True)]
    table.append(update(1_000, 25, repeats))
    heads = ["what", "microseconds", "overhead", "middle half", f"below {BUDGET:.0%}"]
    print(
        tabulate(
            table,
            heads,
            tablefmt="github",
            disable_numparse=True,
            colalign=("left", "right", "right", "right", "left"),
        )
    )


if __name__ == "__main__":
    main()
