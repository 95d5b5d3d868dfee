"""Proposals of a next state, and their weights."""

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from bench_core import Rng
from bench_ssm.maps import Map


@dataclass(frozen=True)
class Step:
    """The inputs of one step of inference for states [*, d], such as [N, d] or [N, particles, d]."""

    state: Tensor  # [*, d] h_{t-1}
    context: Tensor  # [*, H] projection of a_t
    tokens: Tensor  # [*] w_t
    eps: Tensor  # [*, K, d] standard normal noise of proposals
    peek: Tensor  # [*, K, d] standard normal noise of possible next states
    uniform: Tensor  # [N] or [N, filters] number between 0 and 1 that chooses the surviving proposals


@dataclass(frozen=True)
class Proposal:
    """p(h_t | h_{t-1}) and q(h_t | h_{t-1}, w), from which next states are sampled."""

    prior: Map  # F_g(h_{t-1}, .)
    inferred: Map  # F_q(h_{t-1}, .)
    mean: Tensor  # mu_t [*, K, d], or [*, 1, d]
    log_std: Tensor  # ln sigma_t [*, K, d], or [*, 1, d]

    def sample(self, eps: Tensor) -> tuple[Tensor, Tensor]:
        """Return states from q [*, K, d] and their ln p - ln q [*, K], given standard normal noise [*, K, d]."""
        states, log_det_q = self.inferred.forward(self.mean + self.log_std.exp() * eps)
        return states, self._log_ratio(states, eps, log_det_q)

    def sample_mixed(self, eps: Tensor, from_prior: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Return states from p if `from_prior` [*, K], else from q, and ln p - ln ((1 - share) q + share p) [*, K].

        It is at most -ln `share`, however narrow q is (Hesterberg, 1995).
        """
        if share == 0:
            return self.sample(eps)
        by_q = self.inferred.forward(self.mean + self.log_std.exp() * eps)[0]
        states = torch.where(from_prior[..., None], self.prior.forward(eps)[0], by_q)
        xi, log_det_q = self.inferred.inverse(states)
        log_ratio = self._log_ratio(states, (xi - self.mean) * (-self.log_std).exp(), log_det_q)
        odds = log(1 - share) - log_ratio if share < 1 else torch.full_like(log_ratio, -torch.inf)
        return states, -torch.logaddexp(odds, torch.full_like(odds, log(share)))

    def _log_ratio(self, states: Tensor, eps: Tensor, log_det_q: Tensor) -> Tensor:
        """Return ln p - ln q [*, K] of states, given their standardized noise in q."""
        zeta, log_det_g = self.prior.inverse(states)
        density = 0.5 * (eps.square() - zeta.square()).sum(-1) + self.log_std.sum(-1)  # ln r(zeta) - ln q(xi)
        return density + log_det_q - log_det_g


def normal(rng: Rng, numbers: Tensor, samples: int, like: Tensor) -> Tensor:
    """Sample standard normal noise [M, K, d], with the dimension and type of `like` [d]."""
    return rng.normal(numbers, 0, samples * len(like)).view(-1, samples, len(like)).to(like.dtype)


def effective_number(log_weights: Tensor) -> Tensor:
    """Return (sum_k w_k)^2 / sum_k w_k^2 [*] of log-weights [*, K]: 1 if one weight dominates, K if all are equal."""
    scaled = (log_weights - log_weights.amax(-1, keepdim=True).clamp(min=torch.finfo(log_weights.dtype).min)).exp()
    return scaled.sum(-1).square() / scaled.square().sum(-1).clamp(min=torch.finfo(log_weights.dtype).tiny)
