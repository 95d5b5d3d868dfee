"""The cells of a suite: one for each combination of its axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from bench_core.suites.suite import Suite


@dataclass(frozen=True)
class Cell:
    """One combination of the matrix, with its metrics and probes."""

    task: str
    model: str
    decoder: str | None
    split: str
    hardware: str
    seed: int
    metrics: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()

    @property
    def axes(self) -> dict[str, Any]:
        """Return its name on each axis, without metrics and probes."""
        return {name: value for name, value in vars(self).items() if name not in ("metrics", "probes")}


def cells_of(
    suite: Suite,
    splits: Iterable[str] | None = None,
    hardware: Iterable[str] | None = None,
    seeds: Iterable[int] | None = None,
) -> list[Cell]:
    """Return the product of the axes, without skipped cells; `splits`, `hardware`, `seeds` replace the suite's."""
    decoders: list[str | None] = [*suite.decoders] or [None]
    found = []
    splits, hardware, seeds = splits or suite.splits, hardware or suite.hardware, seeds or suite.seeds
    axes = product(suite.tasks, suite.models, decoders, splits, hardware, seeds)
    for task, model, decoder, split, hardware, seed in axes:
        names = {"task": task, "model": model, "decoder": decoder, "split": split, "hardware": hardware}
        if any(skip.covers(**names) for skip in suite.skip if not skip.metric):
            continue
        skipped = [skip for skip in suite.skip if skip.metric]
        kept = (name for name in suite.metrics if not any(skip.covers(**names, metric=name) for skip in skipped))
        probes = (name for name, one in suite.probes.items() if decoder is not None or not one.with_decoder)
        found.append(Cell(task, model, decoder, split, hardware, seed, tuple(kept), tuple(probes)))
    return found


def join(*names: str) -> str:
    """Join names to a label, such as `lstm/perplexity`."""
    return "/".join(name for name in names if name)
