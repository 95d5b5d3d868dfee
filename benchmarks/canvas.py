"""Measure a pass over a canvas and schedules of k places in a pass: `python benchmarks/canvas.py [--quick]`.

Prints two Markdown tables: CPU time of `places`, and of a whole pass of a decoder, relative to the forward pass of a plain
Transformer over as many places (with the same layers, run alternately); and of decoding by k, relative to one pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

import torch
from tabulate import tabulate

from bench_canvas.plugin import MaskedDiffusionConfig, UnmaskConfig
from bench_core import Batch, ModelConfig, Rng, TaskInfo
from bench_indigo.plugin import TransformerConfig

Work = Callable[[], object]
BUDGET = 1.1  # of a pass, relative to the forward pass of a Transformer
ORDERS = ("confidence", "margin", "entropy", "random", "left")


def model(kind: type[ModelConfig], width: int, vocabulary: int, **settings: Any) -> Any:
    names = ["<stop>", *map(str, range(1, vocabulary))]
    config = kind(d_model=width, heads=4, layers=2, feed_forward=2 * width, **settings)
    torch.manual_seed(0)
    return config.load()(config, TaskInfo(names, source_vocabulary=names)).eval()


def batch(rows: int, places: int, vocabulary: int) -> Batch:
    ids = torch.arange(rows)
    tokens = 1 + (Rng(1).uniform(ids, 0, places) * (vocabulary - 1)).long()
    length = torch.full_like(ids, places)
    return Batch(ids, torch.zeros_like(ids)[:, None], tokens, length, tokens.flip(1), length)


def compare(works: dict[str, Work], base: Work, repeats: int) -> dict[str, tuple[float, float]]:
    """Return the median CPU time of each work, and the median ratio to the baseline, run just before it."""
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            pair = seconds(base), seconds(work)
            if turn:  # the first turn warms up
                pairs[name].append(pair)
    return {
        name: (median(time for _, time in several), median(time / least for least, time in several))
        for name, several in pairs.items()
    }


def seconds(work: Work) -> float:
    start = process_time()
    work()
    return process_time() - start


def a_pass(masked: Any, several: Batch, order: str) -> Work:
    """Return the first pass of a decoder that writes an eighth of the places; later passes have fewer to compare."""
    config: Any = UnmaskConfig(order=order, passes=8)
    decoder = config.load()(config)
    drafts = decoder._begin(masked, several)

    def work() -> object:
        log_probs = masked.places(drafts.known, drafts.canvas)
        decoder._check(log_probs, drafts, masked, 1)
        return decoder.write(drafts, log_probs, decoder._scores(log_probs, drafts, Rng(1)), 1)

    return work


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, to test the script")
    rows, places, width, vocabulary, repeats = (
        (4, 8, 16, 300, 1) if parser.parse_args().quick else (64, 32, 128, 4000, 9)
    )
    torch.set_num_threads(1)
    several = batch(rows, places, vocabulary)
    masked = model(MaskedDiffusionConfig, width, vocabulary, places=places)
    plain = model(TransformerConfig, width, vocabulary)
    known, canvas = masked.begin(several)
    sources = plain.encode(several)

    def decode(config: UnmaskConfig) -> Work:
        return lambda: config.load()(config).decode(masked, several, Rng(1))

    forward = lambda: plain.log_probs(plain._run(plain._embed(several.inputs), sources))  # noqa: E731
    works: dict[str, Work] = {"`places`": lambda: masked.places(known, canvas)}
    works |= {f"pass, {order}": a_pass(masked, several, order) for order in ORDERS}
    lines = [
        [name, f"{1000 * time:.1f}", f"{ratio:.2f}", str(BUDGET)]
        for name, (time, ratio) in compare(works, forward, repeats).items()
    ]
    print(f"A pass over {rows} canvases of {places} places; d = {width}, V = {vocabulary:,}; {repeats} runs.\n")
    print(tabulate(lines, ["what", "ms", "times Transformer", "budget"], "github", disable_numparse=True), "\n")
    schedules = {str(k): decode(UnmaskConfig(k=k)) for k in (places // 2, places // 4)}
    table = [
        [k, str(places // int(k)), f"{ratio:.2f}"]
        for k, (_, ratio) in compare(schedules, decode(UnmaskConfig(k=places)), max(1, repeats // 2)).items()
    ]
    print(tabulate(table, ["k", "passes", "times one pass"], "github", disable_numparse=True))


if __name__ == "__main__":
    main()
