"""A deep state space model whose state is one number, so that P(w) can be computed by quadrature."""

from copy import deepcopy
from math import log, pi, sqrt

import torch
from torch import Tensor, nn

from bench_core import Batch, Rng, Scores, Scoring, SuiteError, TaskInfo
from bench_ssm.model import DeepSSM
from bench_ssm.plugin import LineSSMConfig

PILOTS = 4096  # trajectories that determine the range of the grid
MARGIN = 0.5  # part of this range that is added on each side
MAX_POINTS = 6000  # of the grid
MAX_LOST = 1e-7  # maximum change of the total probability of states by the grid
MAX_ERROR = 1e-5  # maximum difference of ln P(w) from that with half the points, in nats
PROPOSAL_SCALE = 0.3  # of the weights of mu and ln sigma, so that q is near the prior


class LineSSM(DeepSSM):
    """A deep state space model with d = 1, and weights that are set, so that its P(w) is known before training."""

    config: LineSSMConfig

    @torch.no_grad()
    def setup(self, info: TaskInfo, rng: Rng) -> None:
        """Set all weights to fixed normal numbers; F(h, x) is smooth and near g(h) + x, or its inverse."""
        for name, weights in self.named_parameters():
            normal = torch.special.ndtri(Rng(0).shared(name, tuple(weights.shape)))
            weights.copy_(normal / sqrt(weights.shape[-1] if weights.dim() > 1 else 4))
        for name, layers in self.named_modules():
            if isinstance(layers, nn.Sequential) and isinstance(last := layers[-1], nn.Linear):
                shift = 1.5 if name.startswith("generative") else 0.15
                last.weight.mul_(torch.tensor([[shift], [0.15]]))  # of g and G
                last.bias.copy_(torch.tensor([0.0, 1.0]))
        self.posterior.proposal.weight.mul_(PROPOSAL_SCALE)
        self.posterior.proposal.bias.mul_(PROPOSAL_SCALE)
        self.emission.weight.mul_(2 * self.config.sharpness)
        self.emission.bias.mul_(self.config.sharpness)

    def score(self, batch: Batch, scoring: Scoring) -> Scores:
        if scoring.by != "exact":
            return super().score(batch, scoring)
        self.max_length(batch)
        return Scores(integrate(self, batch.gold, batch.length))


@torch.no_grad()
def integrate(model: DeepSSM, gold: Tensor, length: Tensor) -> Tensor:
    """Return ln P(w) [N] of a model with d = 1, by the trapezoidal rule over h_1, h_2, ..., in float64."""
    grid = _grid(model)
    log_probs, coarser = (_integrate(model, points, gold, length) for points in (grid, grid[::2]))
    error = float((log_probs - coarser).abs().max())
    if not error <= MAX_ERROR:
        raise SuiteError(
            f"P(w) cannot be computed by quadrature: half the grid changes ln P(w) by {error:.1g}, because G(h) "
            "changes its sign. Score by `smc` or `trajectories`."
        )
    return log_probs


def _integrate(model: DeepSSM, grid: Tensor, gold: Tensor, length: Tensor) -> Tensor:
    first, kernel, emitted = _on_grid(model, grid, int(length.max()))
    log_probs = emitted.new_zeros(len(gold))
    masses = first.expand(len(gold), -1)  # [N, G] of h_t given the letters before t
    for t in range(int(length.max())):
        real = t < length
        joint = masses * emitted[:, gold[:, t]].T
        total = joint.sum(1)
        log_probs += total.log().where(real, 0)
        masses = (joint / total[:, None]) @ kernel
    return log_probs


def _on_grid(model: DeepSSM, grid: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the masses of h_1 [G], transitions [G, G] and probabilities of tokens [G, V] on a grid of states."""
    generative, emission = deepcopy(model.generative).double(), deepcopy(model.emission).double()
    origin = model.origin.double()[None]
    spacing = grid[1] - grid[0]

    def density(states: Tensor) -> Tensor:
        zeta, log_det = generative.at(states).inverse(grid[None, :, None].expand(len(states), -1, -1))
        return (-0.5 * (zeta[..., 0].square() + log(2 * pi)) - log_det).exp() * spacing

    first, kernel = density(origin)[0], density(grid[:, None])
    masses = first
    for _ in range(steps - 1):
        masses = masses @ kernel
    lost = max(abs(1 - float(each.sum())) for each in (first, masses))
    if not lost <= MAX_LOST:
        raise SuiteError(
            f"P(w) cannot be computed by quadrature: the probabilities of states on a grid of {len(grid):,} points "
            f"sum to 1 only within {lost:.1g}. Score by `smc` or `trajectories`, or train with a smaller rate."
        )
    return first, kernel, emission(grid[:, None]).exp()


@torch.no_grad()
def _grid(model: DeepSSM) -> Tensor:
    """Return equidistant states [G], closer than a sixth of the smallest standard deviation of h_t given h_{t-1}.

    The logits of two tokens differ by at most a quarter of a nat more at one point than at the next.
    """
    pilots = model.prior(torch.arange(PILOTS, device=model.origin.device), Rng(0).fork("pilots"))[1:].double()
    low, high = float(pilots.min()), float(pilots.max())
    low, high = low - MARGIN * (high - low), high + MARGIN * (high - low)
    coarse = torch.linspace(low, high, 501, dtype=torch.float64, device=model.origin.device)[:, None]
    _, log_det = deepcopy(model.generative).double().at(coarse).forward(torch.zeros_like(coarse)[:, None])
    slopes = model.emission.weight[:, 0]
    spacing = min(float(log_det.min().exp()) / 6, 0.25 / max(1e-9, float(slopes.max() - slopes.min())))
    points = min(MAX_POINTS, max(501, int((high - low) / spacing) + 2))
    return torch.linspace(low, high, points, dtype=torch.float64, device=model.origin.device)
