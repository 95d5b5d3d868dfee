"""Worlds of known truth that are not Gaussian: trainings that differ in kind, skewed and heavy-tailed examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt
from typing import TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri
from worlds import BOTH, COMMON, OWN, Generator, weights

from bench_reports.statistics.estimate import EVERYWHERE, Measured
from bench_reports.statistics.tails import Array

AT_ONCE = 500  # experiments that are drawn together

Cell: TypeAlias = Sequence[Array]  # what a metric keeps of examples, each [R, N, S]


@dataclass(frozen=True)
class Draw:
    """The size of some experiments, and where their numbers come from."""

    generator: Generator
    repetitions: int
    seeds: int
    examples: int

    def normal(self, *shape: int) -> Array:
        """Return standard normal numbers [R, ...]."""
        return self.generator.standard_normal((self.repetitions, *shape))

    def quality(self, common: Array | None = None) -> Array:
        """Return standard normal qualities of examples [R, N, S], with what `common` [R, N, 1] cells have of them."""
        common = self.normal(self.examples, 1) if common is None else common
        own, both = self.normal(self.examples, 1), self.normal(self.examples, self.seeds)
        return np.asarray(sqrt(COMMON) * common + sqrt(OWN) * own + sqrt(BOTH) * both)

    @property
    def unit(self) -> float:
        """The error by examples of a difference at one seed, in quality."""
        return sqrt(2 * (1 - COMMON) / self.examples)

    def trainings(self, spread: float = 1.0) -> Array:
        """Return what normal trainings add [R, 1, S]: nothing, if there is a single one."""
        return self.normal(1, self.seeds) * self.unit * spread * (self.seeds > 1)


@dataclass(frozen=True)
class OtherWorld:
    """Cells of one task, all of the same true mean."""

    cells: Callable[[Draw], Sequence[Cell]]
    truth: Callable[[Draw], float] = lambda draw: 0.0  # on the scale of tests
    makes: Callable[[Sequence[Array]], Array] = lambda means: means[0]
    scale: str = "linear"
    bounds: tuple[float, float] = EVERYWHERE
    apart: bool = False  # whether cells have different test sets

    def experiments(
        self, repetitions: int, seeds: int, examples: int, generator: Generator
    ) -> Iterator[list[Measured]]:
        """Yield the cells of one experiment after the other."""
        for first in range(0, repetitions, AT_ONCE):
            some = min(AT_ONCE, repetitions - first)
            found = [self._measured(cell) for cell in self.cells(Draw(generator, some, seeds, examples))]
            for one in range(some):
                yield [
                    Measured(
                        values[one], draws[one, :, None], size, sample=place if self.apart else "same",
                        scale=self.scale, bounds=self.bounds,  # type: ignore[arg-type]
                    )
                    for place, (values, draws, size) in enumerate(found)
                ]  # fmt: skip

    def _measured(self, cell: Cell) -> tuple[Array, Array, int]:
        """Return values [R, S], bootstrap replicates [R, S, D] and the number of examples."""
        examples = cell[0].shape[1]
        values = self.makes([part.mean(1) for part in cell])
        draws = self.makes([np.moveaxis(part, 1, 2) @ weights(examples).T for part in cell])
        return (np.log(values), np.log(draws), examples) if self.scale == "log" else (values, draws, examples)


def _shares(rates: Callable[[Generator, tuple[int, ...]], Array], true: float, cells: int = 2) -> OtherWorld:
    """Return a world of shares, whose rate in a training is drawn from anywhere."""

    def drawn(draw: Draw) -> Sequence[Cell]:
        common = draw.normal(draw.examples, 1)
        limits = [-ndtri(rates(draw.generator, (draw.repetitions, 1, draw.seeds))) for _ in range(cells)]
        return [[100.0 * (draw.quality(common) > limit)] for limit in limits]

    return OtherWorld(drawn, lambda draw: true, scale="share", bounds=(0.0, 100.0))


MEAN = exp(0.5)  # of a lognormal


def _opposed(draw: Draw) -> Sequence[Cell]:
    common = draw.normal(draw.examples, 1)
    skewed = [np.exp(draw.quality(common)) - MEAN for _ in range(2)]
    return [[sign * one + 2 * draw.trainings()] for sign, one in zip((1, -1), skewed, strict=True)]


def _beside_normal(draw: Draw) -> Sequence[Cell]:
    skewed, normal = np.exp(draw.quality()) - MEAN, draw.quality()
    return [[one + 2 * draw.trainings()] for one in (skewed, normal)]


def _diverging(rate: float) -> Callable[[Draw], Sequence[Cell]]:
    def drawn(draw: Draw) -> Sequence[Cell]:
        common, shape = draw.normal(draw.examples, 1), (draw.repetitions, 1, draw.seeds)
        worse = [10 * draw.unit * (draw.generator.random(shape) < rate) for _ in range(2)]
        return [[draw.quality(common) + draw.trainings() - one] for one in worse]

    return drawn


def _heavy(draw: Draw) -> Sequence[Cell]:
    """Return examples of Student's t with 3 degrees of freedom, which most cells share in part."""
    common = draw.normal(draw.examples, 1)
    return [[_student(draw.quality(common)) + draw.trainings()] for _ in range(2)]


def _student(normal: Array) -> Array:
    from scipy.special import stdtrit

    return np.asarray(stdtrit(3, ndtr(normal)))


def _of_other_sizes(draw: Draw) -> Sequence[Cell]:
    larger = Draw(draw.generator, draw.repetitions, draw.seeds, 4 * draw.examples)
    return [
        [np.exp(draw.quality()) + draw.trainings()],
        [np.exp(larger.quality()) + draw.trainings()],
    ]


def _kinds(rates: Sequence[float], weight: Sequence[float]) -> Callable[[Generator, tuple[int, ...]], Array]:
    return lambda generator, shape: generator.choice(rates, shape, p=weight)


def _of_seeds(sigma: float) -> Callable[[Draw], Sequence[Cell]]:
    """Return trainings that are lognormal in one cell, and their mirror image in the other."""

    def drawn(draw: Draw) -> Sequence[Cell]:
        common = draw.normal(draw.examples, 1)
        added = [(np.exp(sigma * draw.normal(1, draw.seeds)) - exp(sigma**2 / 2)) * 3 * draw.unit for _ in range(2)]
        return [[draw.quality(common) + sign * one] for sign, one in zip((1, -1), added, strict=True)]

    return drawn


#: In which two cells are equally good
EQUAL = {
    "opposed skew (lognormal, mirrored)": OtherWorld(_opposed),
    "lognormal against normal, two test sets": OtherWorld(_beside_normal, apart=True),
    "heavy tails (t with 3 degrees)": OtherWorld(_heavy),
    "lognormal, test sets of N and 4 N": OtherWorld(_of_other_sizes, apart=True),
    "training runs at 0 (2 of 3) or 60 %": _shares(_kinds((0.0, 0.6), (2 / 3, 1 / 3)), 20.0),
    "U-shaped training runs, Beta(0.2, 0.8)": _shares(lambda generator, shape: generator.beta(0.2, 0.8, shape), 20.0),
    "training runs that diverge in 10 %": OtherWorld(_diverging(0.1)),
    "training runs that diverge in 30 %": OtherWorld(_diverging(0.3)),
}  # fmt: skip
#: In which nothing that three trainings show tells how wrong a test is
UNKNOWABLE = {
    "opposed skew of training runs (lognormal, 0.5)": OtherWorld(_of_seeds(0.5)),
    "opposed skew of training runs (lognormal, 1)": OtherWorld(_of_seeds(1.0)),
}


def _lognormal(draw: Draw) -> Sequence[Cell]:
    return [[np.exp(draw.quality() + draw.trainings())]]


def _perplexity(draw: Draw) -> Sequence[Cell]:
    words = np.floor(20 + 5 * draw.normal(draw.examples, 1)).clip(1) * np.ones(draw.seeds)
    return [[20 * np.exp(draw.quality() + 0.2 * draw.trainings()), words]]


def _perplexities_truth(draw: Draw) -> float:
    spread = 0.2 * draw.unit * (draw.seeds > 1)
    words = np.floor(20 + 5 * np.random.default_rng(1).standard_normal(1_000_000)).clip(1).mean()
    return 20 * exp((1 + spread**2) / 2) / float(words)


def _bleu(wrong: float) -> OtherWorld:
    """Return a world of lines of 20 words, of which some are wholly wrong; words and pairs of them are counted."""

    def drawn(draw: Draw) -> Sequence[Cell]:
        right = draw.quality() < -ndtri(wrong)
        return [[20.0 * right, 19.0 * right]]

    def makes(means: Sequence[Array]) -> Array:
        words, pairs = means
        return np.asarray(100 * np.sqrt(words / 20 * pairs / 19))

    return OtherWorld(drawn, lambda draw: 100 * (1 - wrong), makes, bounds=(0.0, 100.0))


def _close(share: float, spread: float) -> OtherWorld:
    """Return a world of shares whose trainings are normal in quality."""

    def drawn(draw: Draw) -> Sequence[Cell]:
        return [[100.0 * (draw.quality() + draw.trainings(spread) > -ndtri(share))]]

    def true(draw: Draw) -> float:
        return 100 * float(ndtr(ndtri(share) / sqrt(1 + (spread * draw.unit * (draw.seeds > 1)) ** 2)))

    return OtherWorld(drawn, true, scale="share", bounds=(0.0, 100.0))


#: Single cells: trainings that differ in kind, then examples that are skewed
SINGLE = {
    "training runs at 0 (2 of 3) or 60 %": _shares(_kinds((0.0, 0.6), (2 / 3, 1 / 3)), 20.0, 1),
    "U-shaped training runs, Beta(0.2, 0.8)": _shares(
        lambda generator, shape: generator.beta(0.2, 0.8, shape), 20.0, 1
    ),
    "U-shaped training runs, Beta(0.3, 0.3)": _shares(
        lambda generator, shape: generator.beta(0.3, 0.3, shape), 50.0, 1
    ),
    "lognormal": OtherWorld(
        _lognormal,
        lambda draw: exp((1 + (draw.unit * (draw.seeds > 1)) ** 2) / 2),
        bounds=(0.0, inf),
    ),
    "heavy-tailed log perplexity": OtherWorld(_perplexity, _perplexities_truth, lambda means: means[0] / means[1]),
    "BLEU, 3 % of lines wrong": _bleu(0.03),
    "share of 3 %": _close(0.03, 1.0),
}
#: Cells whose trainings are normal
GAUSSIAN = {
    "normal": OtherWorld(lambda draw: [[draw.quality() + draw.trainings()]]),
    "share 50 %": _close(0.5, 1.0),
    "share 10 %": _close(0.1, 1.0),
}
