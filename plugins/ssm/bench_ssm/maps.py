"""Invertible maps from noise to states, given the previous state.

Each is about N states at once, and takes any number of points for each of them. `forward` takes points [*, K, d] to
others, `inverse` takes them back, and both also return ln |det J| [*, K], or [*, 1] where all points have the same: J
is always the Jacobian of `forward`, at the point that it starts from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Map(ABC):
    """A diffeomorphism of R^d for each of N states."""

    @abstractmethod
    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return f(x) and ln |det J_f(x)| of points x [*, K, d]."""

    @abstractmethod
    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return x and ln |det J_f(x)| of points f(x) [*, K, d]."""


@dataclass(frozen=True)
class Shift(Map):
    """f(x) = a + x."""

    shift: Tensor  # [*, d]

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return points + self.shift[..., None, :], torch.zeros_like(self.shift[..., :1])

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return points - self.shift[..., None, :], torch.zeros_like(self.shift[..., :1])


@dataclass(frozen=True)
class Scale(Map):
    """f(x) = a + D x with a diagonal D."""

    shift: Tensor  # [*, d]
    diagonal: Tensor  # [*, d]

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return self.shift[..., None, :] + self.diagonal[..., None, :] * points, _log_det(self.diagonal)

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return (points - self.shift[..., None, :]) / self.diagonal[..., None, :], _log_det(self.diagonal)


@dataclass(frozen=True)
class Triangle(Map):
    """f(x) = a + G x with a lower triangular G, which is inverted by forward substitution."""

    shift: Tensor  # [*, d]
    matrix: Tensor  # [*, d, d]
    log_det: Tensor  # [*, 1]

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return self.shift[..., None, :] + points @ self.matrix.mT, self.log_det

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        moved = points - self.shift[..., None, :]
        found: Tensor = torch.linalg.solve_triangular(self.matrix.mT, moved, upper=True, left=False)
        return found, self.log_det

    def after(self, first: Triangle) -> Triangle:
        """Return this map after another as one: a2 + G2 a1 and G2 G1."""
        shift, _ = self.forward(first.shift[..., None, :])
        product = (self.matrix @ first.matrix).to(self.matrix.dtype)  # which autocast may have made a coarser one
        return Triangle(shift[..., 0, :], product, self.log_det + first.log_det)


@dataclass(frozen=True)
class Coupling(Map):
    """v' = v exp(s(u, h)) + t(u, h), where u are the coordinates that stay as they are (Dinh et al., 2017)."""

    state: Tensor  # h [*, d]
    network: nn.Module  # [u, h] to [s, t]
    kept: int
    first: bool  # whether u are the first coordinates; else the last

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        kept, rest = self._split(points)
        scale, shift = self._read(kept)
        return self._join(kept, rest * scale.exp() + shift), scale.sum(-1)

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        kept, rest = self._split(points)
        scale, shift = self._read(kept)
        return self._join(kept, (rest - shift) * (-scale).exp()), scale.sum(-1)

    def _read(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Return s, between -2 and 2, and t [*, K, d - kept]."""
        state = self.state[..., None, :].expand(*kept.shape[:-1], self.state.shape[-1])
        scale, shift = self.network(torch.cat([kept, state], -1)).to(kept.dtype).chunk(2, -1)
        return 2 * torch.tanh(scale / 2), shift

    def _split(self, points: Tensor) -> tuple[Tensor, Tensor]:
        rest = points.shape[-1] - self.kept
        parts = torch.split(points, [self.kept, rest] if self.first else [rest, self.kept], -1)
        return (parts[0], parts[1]) if self.first else (parts[1], parts[0])

    def _join(self, kept: Tensor, rest: Tensor) -> Tensor:
        return torch.cat([kept, rest] if self.first else [rest, kept], -1)


@dataclass(frozen=True)
class Inverted(Map):
    """The inverse of another map."""

    map: Map

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        found, log_det = self.map.inverse(points)
        return found, -log_det

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        found, log_det = self.map.forward(points)
        return found, -log_det


@dataclass(frozen=True)
class Composed(Map):
    """Maps that follow each other, the first one first."""

    maps: Sequence[Map]

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros_like(points[..., :1, 0])
        for each in self.maps:
            points, log_det = each.forward(points)
            total = total + log_det
        return points, total

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros_like(points[..., :1, 0])
        for each in reversed(self.maps):
            points, log_det = each.inverse(points)
            total = total + log_det
        return points, total


def compose(maps: Sequence[Map]) -> Map:
    """Return maps, the first one first, as one: triangular ones are multiplied out."""
    joined = [maps[0]]
    for each in maps[1:]:
        last = joined[-1]
        if isinstance(each, Triangle) and isinstance(last, Triangle):
            joined[-1] = each.after(last)
        else:
            joined.append(each)
    return joined[0] if len(joined) == 1 else Composed(joined)


def _log_det(diagonal: Tensor) -> Tensor:
    return diagonal.abs().log().sum(-1, keepdim=True)
