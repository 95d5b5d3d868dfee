"""Worlds of known truth: cells of experiments whose seeds, examples and metrics are drawn, and measured as bench does.

Seeds, examples and what is common to all seeds are drawn anew in every repetition; the bootstrap samples are always
the same ones, as those of `bench_core.computing.bootstrap` are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from bench_reports.statistics.estimate import Measured
from bench_reports.statistics.tails import Array

DRAWS = 1_000
COMMON, OWN, BOTH = 0.4, 0.3, 0.3  # variances of an example: alike in all cells, of a cell, of a cell and a seed
AT_ONCE = 4_000_000  # qualities of examples

Generator: TypeAlias = np.random.Generator


@dataclass(frozen=True)
class Metric:
    """What a metric keeps of the latent quality of examples, and what it makes of the means of that."""

    keeps: Callable[[Array], list[Array]]
    makes: Callable[[Sequence[Array]], Array]
    scale: str = "linear"


def _matches(z: Array) -> list[Array]:
    words, pairs = np.floor(12 + 2.5 * z).clip(0, 20), np.floor(6 + 2.5 * z).clip(0, 19)
    return [words, pairs, 20 + np.floor(1.5 * np.sin(7 * z))]


def _bleu(means: Sequence[Array]) -> Array:
    words, pairs, length = means
    with np.errstate(divide="ignore", invalid="ignore"):
        brevity = np.exp(np.minimum(0.0, 1 - 20 / length))
        return np.asarray(100 * brevity * np.sqrt(words / length * pairs / np.maximum(length - 1, 1)))


def _share(limit: float) -> Metric:
    return Metric(lambda z: [100.0 * (z > limit)], lambda means: means[0], "share")


METRICS: dict[str, Metric] = {
    "normal": Metric(lambda z: [z], lambda means: means[0]),
    "lognormal": Metric(lambda z: [np.exp(z)], lambda means: means[0]),
    "share 50 %": _share(0.0),
    "share 10 %": _share(1.2816),
    "perplexity": Metric(
        lambda z: [np.exp(z / 2) * 20, np.floor(20 + 5 * z).clip(1)], lambda means: means[0] / means[1], "log"
    ),
    "BLEU-like": Metric(_matches, _bleu),
}


@dataclass(frozen=True)
class World:
    """Cells of one task. The latent quality of an example is normal, with a mean that depends on the training."""

    metric: str = "normal"
    seeds: int | Sequence[int] = 3  # of all cells, or of each
    examples: int = 100
    spread: float = 1.0  # standard deviation of trainings / error by examples of a difference at one seed
    shifts: Sequence[float] = (0.0, 0.0)  # of the latent quality of each cell
    paired: bool = False  # all cells are decodings of the same trainings, which they feel alike but for a third
    alike: float = 0.0  # correlation of trainings of different cells that the analysis does not know of
    group: int = 1  # examples of a document, which are alike by a half
    told: bool = True  # whether the analysis knows of documents
    sets: int = 1  # test sets, whose cells follow each other: all of the first, all of the second

    @property
    def unit(self) -> float:
        """The error by examples of a difference at one seed, in latent quality."""
        return float(np.sqrt(2 * (1 - COMMON) * (1 + (self.group - 1) / 2) / self.examples))

    def experiments(self, repetitions: int, generator: Generator) -> Iterator[list[Measured]]:
        """Yield the cells of one experiment after the other."""
        trainings = int(generator.integers(2**32))  # the same ones in all test sets
        each = (self._one_set(repetitions, generator, number, trainings) for number in range(self.sets))
        for sets in zip(*each, strict=True):
            yield [cell for cells in sets for cell in cells]

    def _one_set(
        self, repetitions: int, generator: Generator, number: int, trainings: int
    ) -> Iterator[list[Measured]]:
        metric, most, trained = METRICS[self.metric], max(self._seeds), np.random.default_rng(trainings)
        for some in _chunks(repetitions, self.examples * most * len(self.shifts)):
            kept = metric.keeps(self._latent(some, generator, trained))
            values = metric.makes([part.mean(2) for part in kept])  # [R, C, S]
            draws = metric.makes([self._resampled(part) for part in kept])  # [R, C, S, D]
            if metric.scale == "log":
                values, draws = np.log(values), np.log(draws)
            for one in range(some):
                yield [
                    self._cell(values[one, cell], draws[one, cell], cell, number) for cell in range(len(self.shifts))
                ]

    @property
    def _seeds(self) -> Sequence[int]:
        return [self.seeds] * len(self.shifts) if isinstance(self.seeds, int) else self.seeds

    def _cell(self, values: Array, draws: Array, cell: int, number: int) -> Measured:
        own, grouped = self._seeds[cell], self.group if self.told else 1
        training = ("paired",) if self.paired else (cell,) if self.sets > 1 else None
        return Measured(
            values[:own], draws[:own, None], self.examples / grouped, sample=("set", number), training=training,
            scale=METRICS[self.metric].scale,  # type: ignore[arg-type]
        )  # fmt: skip

    def _latent(self, some: int, generator: Generator, trainings: Generator) -> Array:
        """Return qualities [R, C, N, S]."""
        normal, cells, most = generator.standard_normal, len(self.shifts), max(self._seeds)
        documents = self.examples // self.group

        def part(variance: float, cells: int, seeds: int) -> Array:
            """Return what is added to examples: half of its variance, where there are documents, to those."""
            if self.group == 1:
                return np.asarray(normal((some, cells, self.examples, seeds)) * np.sqrt(variance))
            whole = np.repeat(normal((some, cells, documents, seeds)), self.group, axis=2)
            return np.asarray((whole + normal((some, cells, self.examples, seeds))) * np.sqrt(variance / 2))

        alike = 2 / 3 if self.paired else self.alike
        trained = trainings.standard_normal((some, cells, 1, most)) * np.sqrt(1 - alike)
        trained = trained + trainings.standard_normal((some, 1, 1, most)) * np.sqrt(alike)
        examples = part(COMMON, 1, 1) + part(OWN, cells, 1) + part(BOTH, cells, most)
        return np.asarray(examples + trained * self.spread * self.unit + np.array(self.shifts)[:, None, None])

    def _resampled(self, part: Array) -> Array:
        """Return the means of each sample [R, C, S, D] of what is kept of examples [R, C, N, S]."""
        if self.group > 1 and self.told:
            some, cells, examples, seeds = part.shape
            part = part.reshape(some, cells, examples // self.group, self.group, seeds).mean(3)
        flat = np.moveaxis(part, 2, 3).reshape(-1, part.shape[2])
        return np.asarray((flat @ weights(part.shape[2]).T).reshape(*part.shape[:2], part.shape[3], DRAWS))

    def truth(self, generator: Generator) -> Array:
        """Return the true value of each cell on the scale of tests: the mean over trainings, of all examples."""
        metric, spread = METRICS[self.metric], self.spread * self.unit
        base, trained = generator.standard_normal((2, 400, 4_000))
        found = []
        for shift in self.shifts:
            made = metric.makes([part.mean(1) for part in metric.keeps(base + trained[:, :1] * spread + shift)])
            found.append(float((np.log(made) if metric.scale == "log" else made).mean()))
        return np.array(found)

    def with_spread(self, spread: float) -> World:
        """Return the world with another spread, and a difference of its first two cells if its metric has one."""
        world = replace(self, spread=spread)
        return replace(world, shifts=(world.unit, 0.0)) if self.metric == "normal" and self.sets == 1 else world


def _chunks(repetitions: int, size: int) -> Iterator[int]:
    most = max(1, AT_ONCE // size)
    for first in range(0, repetitions, most):
        yield min(most, repetitions - first)


@lru_cache(maxsize=8)
def weights(examples: int) -> Array:
    """Return the weight of each example in each bootstrap sample [D, N]."""
    generator = np.random.default_rng(1)
    return np.asarray(generator.multinomial(examples, np.full(examples, 1 / examples), DRAWS) / examples)


def streams(repetitions: int, examples: int, correlation: float, generator: Generator) -> Array:
    """Return series [R, N] of mean 0 and variance 1, with a correlation from each number to the next."""
    rng = generator.standard_normal((repetitions, examples)) * np.sqrt(1 - correlation**2)
    rng[:, 0] /= np.sqrt(1 - correlation**2)
    for place in range(1, examples):
        rng[:, place] += correlation * rng[:, place - 1]
    return np.asarray(rng)
