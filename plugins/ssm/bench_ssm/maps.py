"""Invertible maps from noise to states, given the previous state.

A map handles N states at once, with any number K of points for each. `forward` maps points [*, K, d], `inverse` maps
them back, and both also return ln |det J| [*, K], or [*, 1] if it is the same for all points. J is always the
Jacobian of `forward` at the input of `forward`.
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
        """Return x and ln |det J_f(x)|, given points f(x) [*, K, d]."""


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
    """f(x) = a + G x with a lower triangular G; the inverse solves a triangular system."""

    shift: Tensor  # [*, d]
    matrix: Tensor  # [*, d, d]
    log_det: Tensor  # [*, 1]

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return self.shift[..., None, :] + points @ self.matrix.mT, self.log_det

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        moved = points - self.shift[..., None, :]
        solved: Tensor = torch.linalg.solve_triangular(self.matrix.mT, moved, upper=True, left=False)
        return solved, self.log_det

    def after(self, first: Triangle) -> Triangle:
        """Return the composition of `first` and then this map, with shift a2 + G2 a1 and matrix G2 G1."""
        shift, _ = self.forward(first.shift[..., None, :])
        product = (self.matrix @ first.matrix).to(self.matrix.dtype)  # autocast may have lowered the precision
        return Triangle(shift[..., 0, :], product, self.log_det + first.log_det)


@dataclass(frozen=True)
class Coupling(Map):
    """v' = v exp(s(u, h)) + t(u, h), where the coordinates u are kept unchanged (Dinh et al., 2017)."""

    state: Tensor  # h [*, d]
    network: nn.Module  # [u, h] to [s, t]
    kept: int  # number of coordinates u
    first: bool  # whether u are the first coordinates; if not, they are the last

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        kept, rest = self._split(points)
        scale, shift = self._read(kept)
        return self._join(kept, rest * scale.exp() + shift), scale.sum(-1)

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        kept, rest = self._split(points)
        scale, shift = self._read(kept)
        return self._join(kept, (rest - shift) * (-scale).exp()), scale.sum(-1)

    def _read(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Return s, between -2 and 2, and t, both [*, K, d - kept]."""
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
        moved, log_det = self.map.inverse(points)
        return moved, -log_det

    def inverse(self, points: Tensor) -> tuple[Tensor, Tensor]:
        moved, log_det = self.map.forward(points)
        return moved, -log_det


@dataclass(frozen=True)
class Composed(Map):
    """The composition of maps, applied in the order of `maps`."""

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
    """Return the composition of maps, applied in order; consecutive triangular maps are multiplied out."""
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
