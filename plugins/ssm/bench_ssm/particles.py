"""P(w) by particle filters (sequential Monte Carlo), with the model's own q as their proposal.

The particles of a filter are states with weights. At each step, every particle moves to a state proposed by q given
the word, or sometimes by the prior p, which limits weights; its weight is multiplied by P(w_t | h_t) p / m, where m
is the mixture of q and p. If the effective number of particles falls below half, particles are replaced by copies in
proportion to their weights, and weights become equal. The product over steps of the mean weights is an unbiased
estimate of P(w).
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from torch import Tensor

from bench_core import QUARTERS, Batch, Rng, Scores, SuiteError, on_host
from bench_ssm.averaging import TrajectoryScorer
from bench_ssm.plugin import DeepSSMConfig
from bench_ssm.proposals import Proposal, Step, effective_number, normal

FILTERS = 4  # independent filters per target, from whose differences errors are computed
MIN_EFFECTIVE = 0.5  # share of effective particles below which a filter resamples
CPU_PARTICLES = 2**14  # particles of all filters that move at a time on a CPU
DEVICE_PARTICLES = 2**20  # the same on other devices


@dataclass(frozen=True)
class Filtered:
    """Estimates of independent filters."""

    log_probs: Tensor  # [N, F] float64, ln P^(w) by each filter
    effective: Tensor  # [N] effective number of particles before resampling, mean over steps and filters


class ParticleScorer(TrajectoryScorer):
    """P^(w) = 1/F sum_f prod_t sum_m W_{t-1}^{f,m} w_t^{f,m}, with independent filters for each target."""

    config: DeepSSMConfig
    origin: Tensor  # [d] h_0
    posterior: Any  # reads targets
    vocabulary: Any  # names of tokens

    @property
    @abstractmethod
    def peeks(self) -> bool:
        """Whether each proposal depends on a possible next state of the generative flow."""

    @abstractmethod
    def proposal(self, step: Step) -> Proposal:
        """Return the distributions p and q of the next states."""

    @abstractmethod
    def emitted(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Return ln P(w_t | h_t) [*, K] of tokens [*] at states [*, K, d]."""

    @abstractmethod
    def log_bounds(self, batch: Batch, rng: Rng) -> Tensor:
        """Return a sample of the bound on ln P(w) [N] that is trained."""

    @torch.no_grad()
    def filtered(self, batch: Batch, rng: Rng) -> Scores:
        """Estimate ln P(w) by particle filters; report each filter's estimate, and the gap of the bound."""
        self.max_length(batch)
        estimates = run_filters(self, batch, rng.fork("smc"))
        log_probs = estimates.log_probs.logsumexp(1) - log(FILTERS)
        bound = self.log_bounds(batch, rng).double()
        self._check_finite(torch.cat([estimates.log_probs, bound[:, None]], 1), batch)
        values = dict(zip(QUARTERS, estimates.log_probs.round(decimals=6).unbind(1), strict=True))
        more = {"effective_particles": estimates.effective, "bound": bound, "gap": log_probs - bound}
        return Scores(log_probs, values | more)

    def _check_finite(self, log_probs: Tensor, batch: Batch) -> None:
        """Raise SuiteError with the first word of which an estimate [N, *] is not finite."""
        wrong = (~log_probs.isfinite()).any(1).nonzero()[:, 0].tolist()
        if wrong:
            row = wrong[0]
            letters = batch.gold[row, : int(batch.length[row]) - 1].tolist()
            number = log_probs[row][~log_probs[row].isfinite()][0].item()
            raise SuiteError(
                f"particle filters cannot score the word {''.join(self.vocabulary[each] for each in letters)!r} "
                f"(example {int(batch.ids[row])}): an estimate of its log-probability is {number}, because no "
                "proposed state emits its letters, or because weights have diverged. Train longer, use more "
                "`particles`, or score by trajectories."
            )


def run_filters(model: ParticleScorer, batch: Batch, rng: Rng) -> Filtered:
    """Run the filters of each target, a few targets at a time."""
    contexts = model.posterior.read(batch.gold, batch.length)
    order = batch.length.argsort(descending=True, stable=True)
    most = CPU_PARTICLES if order.device.type == "cpu" else DEVICE_PARTICLES
    chunks = torch.split(order, max(1, most // model.config.particles))
    parts = [_run(model, batch.select(rows), contexts[rows], rng) for rows in chunks]
    back = order.argsort()
    return Filtered(
        *(torch.cat([getattr(part, name) for part in parts])[back] for name in ("log_probs", "effective"))
    )


def _run(model: ParticleScorer, batch: Batch, contexts: Tensor, rng: Rng) -> Filtered:
    """Run filters for targets in order of decreasing length, given contexts [N, T, H]."""
    ends, particles = on_host(batch.length), model.config.particles // FILTERS
    log_probs = torch.zeros(len(batch), FILTERS, dtype=torch.float64, device=batch.ids.device)
    effective = torch.zeros_like(log_probs[:, 0])
    log_weights = log_probs.new_full((*log_probs.shape, particles), -log(particles))
    states = model.origin.expand(len(batch), -1)
    for t in range(int(ends[0])):
        rows = int((ends > t).sum())
        numbers = batch.ids[:rows] * model.config.steps + t
        step = _step(model, contexts[:rows, t], batch.gold[:rows, t], states[:rows], numbers, rng)
        moved, gains = _moved(model, step, numbers, rng)
        log_weights = log_weights[:rows] + gains.double().reshape(rows, FILTERS, particles)
        total = log_weights.logsumexp(2)
        log_probs[:rows] += total
        log_weights = log_weights - total[:, :, None].clamp(min=torch.finfo(total.dtype).min)
        sizes = effective_number(log_weights)
        effective[:rows] += sizes.mean(1) / batch.length[:rows]
        states, log_weights = resample(moved.reshape(rows, -1, moved.shape[-1]), log_weights, sizes, step.uniform)
    return Filtered(log_probs, effective)


def _step(
    model: ParticleScorer, context: Tensor, tokens: Tensor, states: Tensor, numbers: Tensor, rng: Rng
) -> Step:  # fmt: skip
    """Return the inputs of a step: particles start from one state [N, d], and then have states [N, F * M, d]."""
    samples = model.config.particles
    eps = normal(rng.fork("proposal"), numbers, samples, model.origin)
    peek = normal(rng.fork("peek"), numbers, samples, model.origin) if model.peeks else eps
    uniform = rng.fork("ancestor").uniform(numbers, 0, FILTERS)
    if states.dim() == 2:
        return Step(states, context, tokens, eps, peek, uniform)
    return Step(states, context[:, None], tokens[:, None], eps[:, :, None], peek[:, :, None], uniform)


def _moved(model: ParticleScorer, step: Step, numbers: Tensor, rng: Rng) -> tuple[Tensor, Tensor]:
    """Return the particles' next states [*, K, d] and the factors of their weights, as logarithms [*, K]."""
    share, shape = model.config.prior_share, step.eps.shape[:-1]
    from_prior = rng.fork("component").uniform(numbers, 0, model.config.particles).view(shape) < share
    moved, ratios = model.proposal(step).sample_mixed(step.eps, from_prior, share)
    return moved, model.emitted(moved, step.tokens) + ratios


def resample(states: Tensor, log_weights: Tensor, sizes: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Resample particles [N, F * M, d] of filters with too small effective numbers [N, F], systematically.

    The weights of a filter, given as logarithms [N, F, M], sum to 1; those of other filters are carried to the next
    step. `uniform` [N, F] is between 0 and 1.
    """
    rows, filters, particles = log_weights.shape
    due = (sizes < MIN_EFFECTIVE * particles)[:, :, None]
    reached = log_weights.exp().cumsum(2)
    index = torch.arange(particles, device=states.device)
    places = (index + uniform[:, :, None]) / particles * reached[:, :, -1:]
    ancestors = torch.where(due, torch.searchsorted(reached, places).clamp(max=particles - 1), index)
    separate = states.view(rows, filters, particles, -1)
    moved = separate.gather(2, ancestors[..., None].expand_as(separate))
    return moved.view_as(states), torch.where(due, -log(particles), log_weights)
