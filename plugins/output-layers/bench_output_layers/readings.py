"""Readings: distributions over tokens, given the probabilities of the bits of their codewords.

Bits are trained independently, so a code has no distribution over tokens of its own. With the codebook C [R, d], bit
logits z [N, d], the unigram distribution pi [R] and the base rates of the bits mu = pi C, the readings are

    naive              p(w) ~ exp(C_w . z)                              bits as independent evidence
    prior-tempered     p(w) ~ pi_w exp(C_w . (z - logit mu) / tau)      evidence beyond the base rates
    maximum-entropy    p(w) ~ pi_w exp(C_w . lambda)                    the bits of p have the probabilities sig(z)

where lambda minimizes log sum_w pi_w exp(C_w . lambda) - lambda . sig(z) + penalty / 2 |lambda|^2 at each position.
With a penalty of 0, p is the distribution closest to pi whose bits have these probabilities, if there is any.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bench_output_layers.code_table import CHUNK_SCORES
from bench_output_layers.settings import MAX_FLOAT32_STEPS, MaximumEntropy, PriorTempered, Reading

STEPS = 0.02, 50.0  # smallest and largest step, in units of the step from the unigram distribution
SHRINKAGE = 0.3  # factor of a step that would raise the objective above its latest values
MEMORY = 4  # number of these values
TEMPERATURES = 0.1, 1e4  # smallest and largest fitted temperature
PENALTIES = 3e-5, 10.0  # smallest and largest fitted penalty
SOLVED_POSITIONS = 500  # positions to which the penalty of several steps, which take time, is fitted
GRID, REFINEMENTS = 7, 5  # numbers of settings tried in a fit, beside the two at which the refinement begins


class Code:
    """A codebook and the unigram distribution of its tokens, with the values that readings compute from them once."""

    def __init__(
        self,
        codebook: Tensor,
        counts: Tensor,
        products: Callable[[Tensor], Tensor] | None = None,
        naive: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Take codewords [R, d] of 0.0 and 1.0, and counts [R], to each of which half a token is added.

        `products` computes C_w . x of all tokens [N, R] for x [N, d], and `naive` the scores of the naive reading, if
        they are more than a matrix product.
        """
        self.codebook, self.counts = codebook, counts
        shares = (counts.double() + 0.5) / (counts.double() + 0.5).sum()
        self.log_prior = shares.log().to(codebook)
        self.base_rates = shares @ codebook.double()  # mu, float64 [d]
        self.products = products or (lambda x: x @ self.codebook.T)
        self.naive = naive or self.products
        self.base_bits = max(1, (len(codebook) - 1).bit_length())

    @cached_property
    def double(self) -> "Code":
        """Return the same code in float64."""
        return Code(self.codebook.double(), self.counts)

    @cached_property
    def eigen(self) -> tuple[Tensor, Tensor]:
        """Return eigenvalues [d] and eigenvectors [d, d] of the bits' covariance under the unigram distribution."""
        second = (self.codebook * self.log_prior.exp()[:, None]).T @ self.codebook
        values, vectors = torch.linalg.eigh(second.double() - self.base_rates[:, None] * self.base_rates)
        return values.clamp(min=0).to(self.codebook), vectors.to(self.codebook)

    @cached_property
    def rotated(self) -> Tensor:
        """Return the codebook in the basis of the eigenvectors [R, d]."""
        return self.codebook @ self.eigen[1]


class ReadingMethod(ABC):
    """A reading with fixed settings."""

    @abstractmethod
    def scores(self, z: Tensor, code: Code) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return the scores [N, R] of all tokens, whose softmax is the distribution, given bit logits [N, d].

        The second value contains values [N] to report about the computation, by name.
        """

    def fitted(self, z: Tensor, gold: Tensor, code: Code) -> "ReadingMethod":
        """Return the reading with the best settings for `gold` [N], rows of the codebook; by default itself."""
        return self

    def distribution(self, z: Tensor, code: Code) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return the log-probabilities of all tokens [N, R], and values [N] to report by name."""
        with torch.autocast(z.device.type, enabled=False):
            parts = [self.scores(some, code) for some in _chunks(z, code)]
            log_probs = [scores.log_softmax(1) for scores, _ in parts]
        values = {name: torch.cat([of[name] for _, of in parts]) for name in parts[0][1]}
        return log_probs[0] if len(parts) == 1 else torch.cat(log_probs), values

    def log_probs_of(self, z: Tensor, gold: Tensor, code: Code) -> Tensor:
        """Return the log-probabilities of the tokens `gold` [N], rows of the codebook."""
        with torch.autocast(z.device.type, enabled=False):
            parts = zip(_chunks(z, code), _chunks(gold, code), strict=True)
            return -torch.cat([cross_entropy(self.scores(some, code)[0], of, reduction="none") for some, of in parts])

    def nats(self, z: Tensor, gold: Tensor, code: Code) -> float:
        """Return the mean cross entropy of the tokens `gold` [N]."""
        return -self.log_probs_of(z, gold, code).double().mean().item()


class NaiveReading(ReadingMethod):
    """Bits as independent evidence, which check bits repeat: overconfident, unless trained for tokens."""

    def scores(self, z: Tensor, code: Code) -> tuple[Tensor, Mapping[str, Tensor]]:
        return code.naive(z), {}


@dataclass(frozen=True)
class TemperedReading(ReadingMethod):
    """The unigram distribution times the evidence of the bits beyond their base rates, at one temperature."""

    temperature: float | None = None  # by default the number of bits per base bit, until it is fitted

    def scores(self, z: Tensor, code: Code) -> tuple[Tensor, Mapping[str, Tensor]]:
        evidence = z - code.base_rates.clamp(1e-6, 1 - 1e-6).logit().to(z)
        return code.log_prior + code.products(evidence / (self.temperature or z.shape[1] / code.base_bits)), {}

    def fitted(self, z: Tensor, gold: Tensor, code: Code) -> ReadingMethod:
        if self.temperature is not None:
            return self
        low, high = (log(temperature) for temperature in TEMPERATURES)
        return TemperedReading(exp(_minimum(lambda x: TemperedReading(exp(x)).nats(z, gold, code), low, high)))


@dataclass(frozen=True)
class Solution:
    """Maximum entropy distributions at N positions."""

    natural: Tensor  # [N, d] lambda in the basis of the eigenvectors
    residual: Tensor  # [N] largest component of the gradient, a difference of probabilities
    steps: Tensor  # [N] number of steps taken


@dataclass(frozen=True)
class MaximumEntropyReading(ReadingMethod):
    """The distribution closest to the unigram distribution whose bits have the predicted probabilities.

    The objective is convex. Gradient steps are preconditioned by the bits' covariance under the unigram distribution,
    with the second length of Barzilai and Borwein (1988), shortened where the objective would rise above its latest
    values. With `steps` of 1, this is the ridge regression (S + penalty)^-1 (sig(z) - mu) of lambda on the bits.
    """

    steps: int = 10
    penalty: float | None = None  # 0.1 until it is fitted
    tolerance: float = 1e-4  # largest component of the gradient, a difference of probabilities, of finished positions

    def scores(self, z: Tensor, code: Code) -> tuple[Tensor, Mapping[str, Tensor]]:
        if self.steps == 1:
            return code.log_prior + code.products(self._ridge(z, code)).to(z), {}
        code = code.double if self.steps > MAX_FLOAT32_STEPS else code
        solution = self.solution(z, code)
        scores = (code.log_prior + solution.natural @ code.rotated.T).to(z)
        return scores, {"reading_residual": solution.residual, "reading_steps": solution.steps}

    def solution(self, z: Tensor, code: Code) -> Solution:
        """Return the distributions at N positions after at most `steps` steps, given bit logits [N, d]."""
        with torch.no_grad():
            solver = Solver(z.to(code.codebook).sigmoid() @ code.eigen[1], code, self._penalty, self.tolerance)
            while solver.count < self.steps and solver.step():
                pass
            return solver.solution()

    def _ridge(self, z: Tensor, code: Code) -> Tensor:
        """Return lambda [N, d] after one step from the unigram distribution, even if the objective rises."""
        values, vectors = code.eigen
        surprise = z.to(code.codebook).sigmoid() - code.base_rates.to(code.codebook)
        return (surprise @ vectors / (values + self._penalty)) @ vectors.T

    @property
    def _penalty(self) -> float:
        return 0.1 if self.penalty is None else self.penalty

    def fitted(self, z: Tensor, gold: Tensor, code: Code) -> ReadingMethod:
        if self.penalty is not None:
            return self
        some = slice(SOLVED_POSITIONS if self.steps > 1 else None)
        low, high = (log(penalty) for penalty in PENALTIES)
        best = _minimum(lambda x: replace(self, penalty=exp(x)).nats(z[some], gold[some], code), low, high)
        return replace(self, penalty=exp(best))


class Solver:
    """Minimizes the objective at N positions at once, in the basis of the eigenvectors; drops finished positions."""

    def __init__(self, target: Tensor, code: Code, penalty: float, tolerance: float) -> None:
        self.code, self.penalty, self.tolerance = code, penalty, tolerance
        self.metric = code.eigen[0] + penalty  # diagonal of the Hessian at lambda = 0
        self.natural, self.steps = torch.zeros_like(target), target.new_zeros(len(target), dtype=torch.int64)
        self.residual = target.new_zeros(len(target))
        self.active = torch.arange(len(target), device=target.device)
        self.target, self.point, self.length = target, self.natural.clone(), target.new_ones(len(target), 1)
        self.count = 0
        value, self.descent = self._evaluate(self.point, target)
        self.values = value[:, None].repeat(1, MEMORY)  # of the objective after the latest steps
        self._keep()

    def step(self) -> bool:
        """Take a step at all unfinished positions; return whether there were any."""
        if not len(self.active):
            return False
        move = self.length * self.descent / self.metric
        value, descent = self._evaluate(self.point + move, self.target)
        taken = (value <= self.values.amax(1) + 10 * torch.finfo(value.dtype).eps)[:, None]
        change = self.descent - descent
        length = (move * change).sum(1, keepdim=True) / (change.square() / self.metric).sum(1, keepdim=True)
        self.length = torch.where(taken, length.nan_to_num(1.0).clamp(*STEPS), SHRINKAGE * self.length)
        self.point = torch.where(taken, self.point + move, self.point)
        self.descent = torch.where(taken, descent, self.descent)
        self.values = torch.where(taken, torch.cat([self.values[:, 1:], value[:, None]], 1), self.values)
        self.steps[self.active] += 1
        self.count += 1
        self._keep()
        return True

    def solution(self) -> Solution:
        return Solution(self.natural, self.residual, self.steps)

    def _evaluate(self, point: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the objective [N] and its negative gradient [N, d]."""
        scores = self.code.log_prior + point @ self.code.rotated.T
        total = scores.logsumexp(1)
        expected = (scores - total[:, None]).exp_() @ self.code.rotated
        value = total - (point * target).sum(1) + self.penalty / 2 * point.square().sum(1)
        return value, target - expected - self.penalty * point

    def _keep(self) -> None:
        """Store the state of all unfinished positions, and drop those that have converged."""
        residual = (self.descent @ self.code.eigen[1].T).abs().amax(1)
        self.natural[self.active], self.residual[self.active] = self.point, residual
        left = (residual > self.tolerance).nonzero()[:, 0]
        if len(left) < len(self.active):
            self.active, self.target, self.point = self.active[left], self.target[left], self.point[left]
            self.values, self.descent, self.length = self.values[left], self.descent[left], self.length[left]


def reading_method(reading: Reading) -> ReadingMethod:
    """Create a reading from its settings."""
    match reading:
        case PriorTempered(temperature=temperature):
            return TemperedReading(temperature)
        case MaximumEntropy(steps=steps, penalty=penalty):
            return MaximumEntropyReading(steps, penalty)
    return NaiveReading()


def _chunks(rows: Tensor, code: Code) -> tuple[Tensor, ...]:
    return torch.split(rows, max(1, CHUNK_SCORES // len(code.codebook)))


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a function between two numbers: the best of a grid, refined by golden section search."""
    width = (high - low) / (GRID - 1)
    values = {low + place * width: function(low + place * width) for place in range(GRID)}
    best = min(values, key=values.__getitem__)
    low, high, ratio = max(low, best - width), min(high, best + width), (5**0.5 - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(REFINEMENTS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return min([best, left, right], key={**values, left: at_left, right: at_right}.__getitem__)
