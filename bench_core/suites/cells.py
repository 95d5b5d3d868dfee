"""The cells of a suite: one for each combination of its axes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from bench_core.config import DecoderConfig, ModelConfig
from bench_core.model import TextGenerator
from bench_core.suites.suite import Suite
from placed_settings import Unreadable


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
    """Return the product of the axes, without skipped cells; `splits`, `hardware`, `seeds` replace the suite's.

    Text generators and their decoders are paired with each other alone, and each pair has the seeds in which it
    differs.
    """
    decoders: list[str | None] = [*suite.decoders] or [None]
    splits, hardware, seeds = splits or suite.splits, hardware or suite.hardware, [*(seeds or suite.seeds)]
    skips = [skip for skip in suite.skip if not skip.metric], [skip for skip in suite.skip if skip.metric]
    found = []
    for task, model, decoder in product(suite.tasks, suite.models, decoders):
        own = _own_seeds(suite, task, model, decoder, seeds)
        for split, device in product(splits, hardware) if own else ():
            names = {"task": task, "model": model, "decoder": decoder, "split": split, "hardware": device}
            if any(skip.covers(**names) for skip in skips[0]):
                continue
            metrics = (one for one in suite.metrics if not any(skip.covers(**names, metric=one) for skip in skips[1]))
            probes = (name for name, one in suite.probes.items() if decoder is not None or not one.with_decoder)
            both = tuple(metrics), tuple(probes)
            found += [Cell(task, model, decoder, split, device, seed, *both) for seed in own]
    return found


def _own_seeds(suite: Suite, task: str, model: str, decoder: str | None, seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds of a model with a decoder, none if they are no pair; all if a setting they read is invalid."""
    config, by = suite.models[model].at(task).config, None if decoder is None else suite.decoders[decoder]
    if by is not None and not can_pair(by, config):
        return ()
    try:
        return differing_seeds(config, by, seeds)
    except Unreadable:
        return seeds


def differing_seeds(model: ModelConfig, decoder: DecoderConfig | None, seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds in which a model with a decoder differs; scoring by a text generator is the same for all."""
    found = model.seeds(seeds)
    if decoder is None:
        return found[:1] if writes_text(model) else found
    by_chance = {*decoder.seeds(seeds)}
    return [seed for seed in found if seed in by_chance]


def can_pair(decoder: DecoderConfig | type[DecoderConfig], model: ModelConfig) -> bool:
    """Return whether a decoder and a model stand in one cell: both write text by themselves, or neither does."""
    if issubclass(decoder.needs, TextGenerator):
        return any(issubclass(one, decoder.needs) for one in model.capabilities)
    return not writes_text(model)


def writes_text(model: ModelConfig) -> bool:
    """Return whether a model is a text generator."""
    return any(issubclass(one, TextGenerator) for one in model.capabilities)


def join(*names: str) -> str:
    """Join names to a label, such as `lstm/perplexity`."""
    return "/".join(name for name in names if name)
