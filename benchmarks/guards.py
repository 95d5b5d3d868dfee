"""What looking at what parts return costs: `python benchmarks/guards.py [--quick]`; prints a Markdown table.

Decoding: the core's loop takes the most probable word of an LSTM, which never stops; looks are timed in place.
Training: the time of looking at a batch and a loss, beside that of an update of the quickstart's LSTM. Medians.
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
ROWS, PREFIX = 32, 10


class Endless(RecurrentLM):
    """Never stops."""

    def _next(self, *given: object) -> tuple[Tensor, LanguageModelState]:
        log_probs, state = super()._next(*given)  # type: ignore[arg-type]
        return log_probs.index_fill(1, log_probs.new_tensor([STOP], dtype=torch.long), -torch.inf), state


def batch_of(rows: int, tokens: int, vocabulary: int) -> Batch:
    """Return sentences of Zipf's words, with a prefix."""
    ids = torch.arange(rows)
    words = float(vocabulary - 1) ** Rng(1).uniform(ids, 0, PREFIX + tokens)
    prompt = torch.nn.functional.pad(words.long()[:, :PREFIX], (1, 0))
    gold = torch.nn.functional.pad(words.long()[:, PREFIX:-1], (0, 1))
    return Batch(ids, prompt, gold, torch.full_like(ids, tokens))


def cpu(work: Callable[[], object]) -> float:
    begin = process_time()
    work()
    return process_time() - begin


class Clock:
    """Adds up the time that calls of functions take, where they are called."""

    def __init__(self) -> None:
        self.total = 0

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            begin = perf_counter_ns()
            found = work(*given)
            self.total += perf_counter_ns() - begin
            return found

        return call


def step(vocabulary: int, rows: int, steps: int, repeats: int, thorough: bool = False) -> list[object]:
    """Return the time of a step, and the share of it that goes into looks, each timed where it happens."""
    info = TaskInfo([str(word) for word in range(vocabulary)])
    model = Endless(RNNLMConfig(hidden=128, layers=2), info).eval()
    batch, clocks = batch_of(rows, 1, vocabulary), (Clock(), Clock(), Clock())
    whole, inside, outside = clocks  # all of it; what a guarded model does; what the model does

    def decode() -> None:
        own = {name: outside.timed(getattr(model, name)) for name in ("start", "step", "limit", "read")}
        with ExitStack() as stack:
            stack.enter_context(replaced(vars(model), own))
            stack.enter_context(guarded(model, vocabulary, thorough, 1 if thorough else CHECK_INTERVAL))
            own = {name: inside.timed(getattr(model, name)) for name in own}
            stack.enter_context(replaced(vars(model), own))
            whole.timed(generate)(model, batch, lambda log_probs, ids, step: log_probs.argmax(1), steps)

    decode()
    shares, times = [], []
    for _ in range(repeats):
        whole.total = inside.total = outside.total = 0
        decode()
        looks = inside.total - outside.total
        times.append((whole.total - looks) / steps / 1e3)
        shares.append(looks / (whole.total - looks))
    first = "step of a first batch" if thorough else "step"
    return [f"{first}, {rows} rows, V = {vocabulary:,}", f"{median(times):,.0f}", *shown(sorted(shares))]


def update(vocabulary: int, tokens: int, repeats: int) -> list[object]:
    """Return the time of an update of the quickstart's LSTM, and what looking adds to it."""
    info = TaskInfo([str(word) for word in range(vocabulary)])
    model = RecurrentLM(RNNLMConfig(cell="lstm", hidden=128, layers=2, dropout=0.1), info)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    batch, training = batch_of(ROWS, tokens, vocabulary), Training(0, 1, 0, 1, Rng(0))
    loss = model.loss(batch, training)

    def learn() -> None:
        optimizer.zero_grad(set_to_none=True)
        model.loss(batch, training).value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def look() -> None:
        for _ in range(100):
            misfit(batch, info)
            check_loss(loss, model)
            bool((loss.weight > 0) & (loss.weight < torch.inf))

    learn(), look()
    pairs = [(cpu(learn), cpu(look) / 100) for _ in range(repeats)]
    whole = median(learned for learned, _ in pairs)
    return [
        f"update, {ROWS} rows of {tokens} tokens, V = {vocabulary:,}",
        f"{whole * 1e6:,.0f}",
        *shown(sorted(looked / whole for _, looked in pairs)),
    ]


def shown(shares: list[float]) -> tuple[str, str, str]:
    """Return the median of shares in order, the middle half of them, and whether the median is in the budget."""
    low, middle, high = quantiles(shares, n=4)
    return f"{100 * middle:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}", "yes" if middle < BUDGET else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    torch.manual_seed(0)
    steps, repeats = (20, 5) if quick else (64, 31)
    with torch.inference_mode():
        table = [step(words, rows, steps, repeats) for words in (1_000, 5_000, 20_000) for rows in (32, 128)]
        table += [step(5_000, 128, steps, repeats, thorough=True)]
    table.append(update(1_000, 25, repeats))
    heads = ["what", "microseconds", "looking adds", "middle half", f"below {BUDGET:.0%}"]
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
