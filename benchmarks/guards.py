"""What looking at what parts return costs: `python benchmarks/guards.py [--quick]`; prints a Markdown table.

Decoding: the core's loop takes the most probable word of an LSTM, which never stops; the time of looking at its steps,
beside that of all the rest. Training: the time of looking at a batch and a loss, beside that of an update of the
quickstart's LSTM. CPU time, medians.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import process_time, process_time_ns
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor

from bench_core import STOP, Batch, Facts, Noise, Training, walk
from bench_core.computing.guarded_steps import Steps, replaced
from bench_core.computing.guarded_tasks import misfit
from bench_core.computing.guards import check_loss
from bench_rnn.lm import Memory, RecurrentLM
from bench_rnn.plugin import RNNLMConfig

BUDGET = 0.02
ROWS, PREFIX = 32, 10
REPEATS = 5  # of a look


class Endless(RecurrentLM):
    """Never stops."""

    def _next(self, *given: object) -> tuple[Tensor, Memory]:
        log_probs, state = super()._next(*given)  # type: ignore[arg-type]
        return log_probs.index_fill(1, log_probs.new_tensor([STOP], dtype=torch.long), -torch.inf), state


def batch_of(rows: int, tokens: int, vocabulary: int) -> Batch:
    """Return sentences of Zipf's words, with a prefix."""
    ids = torch.arange(rows)
    words = float(vocabulary - 1) ** Noise(1).uniform(ids, 0, PREFIX + tokens)
    opening = torch.nn.functional.pad(words.long()[:, :PREFIX], (1, 0))
    gold = torch.nn.functional.pad(words.long()[:, PREFIX:-1], (0, 1))
    return Batch(ids, opening, gold, torch.full_like(ids, tokens))


def cpu(work: Callable[[], object]) -> float:
    begin = process_time()
    work()
    return process_time() - begin


class Timed(Steps):
    """Looks, and takes the time of it, and of all that goes on between two looks."""

    def __init__(self, model: RecurrentLM, thorough: bool) -> None:
        super().__init__(model, thorough)
        self.looks: list[float] = []
        self.rests: list[int] = []
        self.end = 0

    def _looked_at(self, found: Any, method: str, rows: int) -> tuple[Tensor, Any]:
        begin = process_time_ns()
        if method == "step":
            self.rests.append(begin - self.end)
        super()._looked_at(found, method, rows)  # brings the numbers near, which whoever chooses has to do as well
        begin = process_time_ns()
        for _ in range(REPEATS):
            self.step -= 1
            super()._looked_at(found, method, rows)
        self.end = process_time_ns()
        self.looks.append((self.end - begin) / REPEATS)
        return found  # type: ignore[no-any-return]


def step(vocabulary: int, rows: int, steps: int, thorough: bool = False) -> list[object]:
    """Return the time of a step without looking, and what looking adds to it."""
    facts = Facts([str(word) for word in range(vocabulary)])
    model = Endless(RNNLMConfig(hidden=128, layers=2), facts).eval()
    timed = Timed(model, thorough)
    with replaced(vars(model), {"start": timed.start, "step": timed.next}):
        walk(model, batch_of(rows, 1, vocabulary), lambda log_probs, ids, step: log_probs.argmax(1), steps)
    look, rest = (sum(timed.looks) / len(timed.looks) if thorough else median(timed.looks)), median(timed.rests)
    first = "step of a first batch" if thorough else "step"
    return [f"{first}, {rows} rows, V = {vocabulary:,}", f"{rest / 1e3:,.0f}", *shown(look / rest)]


def update(vocabulary: int, tokens: int, repeats: int) -> list[object]:
    """Return the time of an update of the quickstart's LSTM, and what looking adds to it."""
    facts = Facts([str(word) for word in range(vocabulary)])
    model = RecurrentLM(RNNLMConfig(cell="lstm", hidden=128, layers=2, dropout=0.1), facts)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    batch, training = batch_of(ROWS, tokens, vocabulary), Training(0, 1, 0, 1, Noise(0))
    loss = model.loss(batch, training)

    def learn() -> None:
        optimizer.zero_grad(set_to_none=True)
        model.loss(batch, training).value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def look() -> None:
        for _ in range(100):
            misfit(batch, facts)
            check_loss(loss, model)
            bool((loss.weight > 0) & (loss.weight < torch.inf))

    learn(), look()
    whole, added = (median(cpu(work) for _ in range(repeats)) for work in (learn, look))
    return [
        f"update, {ROWS} rows of {tokens} tokens, V = {vocabulary:,}",
        f"{whole * 1e6:,.0f}",
        *shown(added / 100 / whole),
    ]


def shown(share: float) -> tuple[str, str]:
    return f"{100 * share:.1f} %", "yes" if share < BUDGET else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    torch.manual_seed(0)
    steps, repeats = (30, 5) if quick else (200, 31)
    with torch.inference_mode():
        table = [step(words, rows, steps) for words in (1_000, 5_000, 20_000) for rows in (32, 128)]
        table += [step(5_000, 128, steps, thorough=True)]
    table.append(update(1_000, 25, repeats))
    heads = ["what", "CPU microseconds", "looking adds", f"below {BUDGET:.0%}"]
    print(
        tabulate(table, heads, tablefmt="github", disable_numparse=True, colalign=("left", "right", "right", "left"))
    )


if __name__ == "__main__":
    main()
