"""Transition flows: h_t = F(h_{t-1}, x), invertible in x for every h_{t-1}."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench_ssm.maps import Coupling, Inverted, Map, Scale, Shift, Triangle, compose
from bench_ssm.plugin import DeepSSMConfig, parse_flow

INITIAL_STD = 0.01  # initial standard deviation of the last layer's weights
COUPLING_UNITS = 8  # hidden units of a coupling layer


class Flow(nn.Module, ABC):
    """A map F(h, .) that depends only on the previous state h."""

    @abstractmethod
    def at(self, state: Tensor) -> Map:
        """Return F(h, .) for states h [*, d]."""


class RandomWalk(Flow):
    """F(h, x) = h + x."""

    def at(self, state: Tensor) -> Map:
        return Shift(state)


class Diagonal(Flow):
    """F(h, x) = g(h) + D(h) x; one network with two hidden layers computes g and D."""

    def __init__(self, state: int, delta: float) -> None:
        super().__init__()
        self.delta = delta
        self.network = network(state, 4 * state, 2 * state)
        nn.init.ones_(_last(self.network).bias[state:])

    def at(self, state: Tensor) -> Map:
        shift, diagonal = self.network(state).to(state.dtype).chunk(2, -1)
        return Scale(shift, clip_away(diagonal, self.delta))


class Triangular(Flow):
    """F(h, x) = g(h) + G(h) x with lower triangular G; one network with two hidden layers computes g and G."""

    places: Tensor  # [d (d + 1) / 2] indices into a flat d x d matrix: the diagonal, then the entries below it

    def __init__(self, state: int, delta: float) -> None:
        super().__init__()
        self.delta, self.sizes = delta, [state, state, state * (state - 1) // 2]
        self.network = network(state, 4 * state, sum(self.sizes))
        nn.init.ones_(_last(self.network).bias[state : 2 * state])
        rows, columns = torch.tril_indices(state, state, -1)
        places = torch.cat([torch.arange(state) * (state + 1), rows * state + columns])
        self.register_buffer("places", places, persistent=False)

    def at(self, state: Tensor) -> Map:
        return Triangle(*self.parts(self.network(state).to(state.dtype)))

    def parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return g [*, d], G [*, d, d] and ln |det G| [*, 1] from outputs of the network."""
        size = self.sizes[0]
        shift, diagonal, below = torch.split(outputs, self.sizes, -1)
        diagonal = clip_away(diagonal, self.delta)
        entries = torch.cat([diagonal, below], -1)
        matrix = entries.new_zeros(*entries.shape[:-1], size * size).index_copy(-1, self.places, entries)
        return shift, matrix.view(*outputs.shape[:-1], size, size), diagonal.abs().log().sum(-1, keepdim=True)


class CouplingLayer(Flow):
    """A conditional affine coupling, as in Real NVP (Dinh et al., 2017, arXiv:1605.08803)."""

    def __init__(self, state: int, kept: int, first: bool) -> None:
        super().__init__()
        self.kept, self.first = kept, first
        self.network = network(kept + state, COUPLING_UNITS, 2 * (state - kept))

    def at(self, state: Tensor) -> Map:
        return Coupling(state, self.network, self.kept, self.first)


class Composition(Flow):
    """The composition F_k o ... o F_1 of flows that are all conditioned on the same state."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        super().__init__()
        self.flows = nn.ModuleList(flows)

    def at(self, state: Tensor) -> Map:
        flows = [flow for flow in self.flows if isinstance(flow, Flow)]
        triangular = [flow for flow in flows if isinstance(flow, Triangular)]
        if len(triangular) < len(flows):
            return compose([flow.at(state) for flow in flows])
        outputs = torch.stack([flow.network(state) for flow in triangular]).to(state.dtype)
        parts = zip(*(part.unbind() for part in triangular[0].parts(outputs)), strict=True)  # one call for all flows
        return compose([Triangle(*each) for each in parts])


class Inverse(Flow):
    """The inverse of a learned flow, for every state."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow

    def at(self, state: Tensor) -> Map:
        return Inverted(self.flow.at(state))


def generative(config: DeepSSMConfig) -> Flow:
    """Return the generative flow F_g."""
    flow = _flow(config.generative, config)
    return Inverse(flow) if config.inverse else flow


def inference(config: DeepSSMConfig) -> Flow:
    """Return the inference flow F_q, which is never parametrized by its inverse."""
    return _flow(config.inference or "diag", config)


def _flow(name: str, config: DeepSSMConfig) -> Flow:
    number, kind = parse_flow(name)
    flows: list[Flow] = []
    for _ in range(number):
        if kind == "real-nvp":
            sides = [config.fixed_side or layer % 2 == 0 for layer in range(len(config.layers))]
            layers = zip(config.layers, sides, strict=True)
            flows += [CouplingLayer(config.state, kept, first) for kept, first in layers]
        elif kind == "id":
            flows.append(RandomWalk())
        else:
            flows.append((Diagonal if kind == "diag" else Triangular)(config.state, config.delta))
    return flows[0] if len(flows) == 1 else Composition(flows)


def network(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Return a network with two hidden tanh layers, whose initial outputs are near 0."""
    last = nn.Linear(hidden, outputs)
    nn.init.normal_(last.weight, std=INITIAL_STD)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), last)


def clip_away(diagonal: Tensor, delta: float) -> Tensor:
    """Return sign(D) max(|D|, delta) with sign(0) = 1 and straight-through gradients."""
    values = diagonal.detach()
    clipped = torch.where(values < 0, values.clamp(max=-delta), values.clamp(min=delta))
    return clipped + (diagonal - values)


def _last(layers: nn.Sequential) -> nn.Linear:
    last = layers[-1]
    assert isinstance(last, nn.Linear)
    return last
