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
        """Return the name of the cell on each axis, without metrics and probes."""
        return {name: value for name, value in vars(self).items() if name not in ("metrics", "probes")}


def cells_of(
    suite: Suite,
    splits: Iterable[str] | None = None,
    hardware: Iterable[str] | None = None,
    seeds: Iterable[int] | None = None,
) -> list[Cell]:
    """Return the product of the axes, without skipped cells; `splits`, `hardware` and `seeds` override the suite.

    Text generators are paired only with their own decoders. A pair keeps only the seeds for which its results differ.
    """
    decoders: list[str | None] = [*suite.decoders] or [None]
    splits, hardware, seeds = splits or suite.splits, hardware or suite.hardware, [*(seeds or suite.seeds)]
    skips = [skip for skip in suite.skip if not skip.metric], [skip for skip in suite.skip if skip.metric]
    cells = []
    for task, model, decoder in product(suite.tasks, suite.models, decoders):
        pair_seeds = _pair_seeds(suite, task, model, decoder, seeds)
        for split, setup in product(splits, hardware) if pair_seeds else ():
            names = {"task": task, "model": model, "decoder": decoder, "split": split, "hardware": setup}
            if any(skip.covers(**names) for skip in skips[0]):
                continue
            metrics = (key for key in suite.metrics if not any(skip.covers(**names, metric=key) for skip in skips[1]))
            probes = (name for name, probe in suite.probes.items() if decoder is not None or not probe.with_decoder)
            both = tuple(metrics), tuple(probes)
            cells += [Cell(task, model, decoder, split, setup, seed, *both) for seed in pair_seeds]
    return cells


def _pair_seeds(suite: Suite, task: str, model: str, decoder: str | None, seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds of a model with a decoder: none if they cannot be paired, all if a setting is unreadable."""
    config, decoder_config = suite.models[model].at(task).config, None if decoder is None else suite.decoders[decoder]
    if decoder_config is not None and not can_pair(decoder_config, config):
        return ()
    try:
        return differing_seeds(config, decoder_config, seeds)
    except Unreadable:
        return seeds


def differing_seeds(model: ModelConfig, decoder: DecoderConfig | None, seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds for which the results of a pair differ; without a decoder, text generators keep one seed."""
    model_seeds = model.seeds(seeds)
    if decoder is None:
        return model_seeds[:1] if writes_text(model) else model_seeds
    decoder_seeds = {*decoder.seeds(seeds)}
    return [seed for seed in model_seeds if seed in decoder_seeds]


def can_pair(decoder: DecoderConfig | type[DecoderConfig], model: ModelConfig) -> bool:
    """Return whether a cell can combine a decoder and a model: both are for text generators, or neither is."""
    if issubclass(decoder.needs, TextGenerator):
        return any(issubclass(capability, decoder.needs) for capability in model.capabilities)
    return not writes_text(model)


def writes_text(model: ModelConfig) -> bool:
    """Return whether a model is a text generator."""
    return any(issubclass(capability, TextGenerator) for capability in model.capabilities)


def join(*names: str) -> str:
    """Join names into a label, such as `lstm/perplexity`."""
    return "/".join(name for name in names if name)
