"""Where names stand beside what they name: at the ends of lines, or at points, so that no two overlap."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple, TypeAlias

Position: TypeAlias = tuple[float, float]
#: Where a name stands seen from its point: right, left, above, below, and between these
SIDES: Sequence[tuple[int, int]] = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))


class Box(NamedTuple):
    """A rectangle, by its lower left and its upper right corner."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Return whether two rectangles share more than an edge."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top

    def inside(self, other: Box) -> bool:
        """Return whether no part of it is outside another."""
        across = other.left <= self.left and self.right <= other.right
        return across and other.bottom <= self.bottom and self.top <= other.top


def spread_out(heights: Sequence[float], gap: float, low: float, high: float) -> list[float] | None:
    """Return heights as near to those given as possible, in the same order, with a gap of at least `gap`.

    All are from `low` to `high`; None if there is no room. Heights that would be too near to each other are moved
    apart around their mean, by the least squares (pool adjacent violators).
    """
    if (len(heights) - 1) * gap > high - low:
        return None
    order = sorted(range(len(heights)), key=lambda one: heights[one])
    pools: list[tuple[float, int]] = []  # the mean of some heights less the gaps below them, and how many they are
    for rank, one in enumerate(order):
        pools.append((heights[one] - rank * gap, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (first, some), (second, others) = pools[-2:]
            pools[-2:] = [((first * some + second * others) / (some + others), some + others)]
    free = [min(max(mean, low), high - (len(order) - 1) * gap) for mean, size in pools for _ in range(size)]
    found = [0.0] * len(order)
    for rank, one in enumerate(order):
        found[one] = free[rank] + rank * gap
    return found


def beside_points(
    points: Sequence[Position], sizes: Sequence[Position], bounds: Box, radius: float, obstacles: Sequence[Box] = ()
) -> list[Position | None]:
    """Return the lower left corner of the name of each point, where it overlaps no other, no point and no obstacle.

    `sizes` are widths and heights of the names, `radius` that of the marks. None of a name that finds no place.
    """
    marks = [*(Box(x - radius, y - radius, x + radius, y + radius) for x, y in points), *obstacles]
    taken: dict[int, Box] = {}
    for one in sorted(range(len(points)), key=lambda one: (-_neighbours(points, one, sizes[one][0]), one)):
        inside = (box for box in _around(points[one], sizes[one], radius) if box.inside(bounds))
        free = (box for box in inside if not any(map(box.overlaps, (*taken.values(), *marks))))
        if place := next(free, None):
            taken[one] = place
    return [taken[one][:2] if one in taken else None for one in range(len(points))]


def along(line: Sequence[Position], step: float, radius: float) -> list[Box]:
    """Return squares along a line of straight parts, at most `step` apart, which names keep away from."""
    found = []
    for (x, y), (next_x, next_y) in pairwise(line):
        parts = max(1, ceil(max(abs(next_x - x), abs(next_y - y)) / step))
        found += [(x + (next_x - x) * part / parts, y + (next_y - y) * part / parts) for part in range(parts + 1)]
    return [Box(x - radius, y - radius, x + radius, y + radius) for x, y in found or line]


def _neighbours(points: Sequence[Position], one: int, reach: float) -> int:
    x, y = points[one]
    return sum(abs(x - other) < reach and abs(y - height) < reach for other, height in points)


def _around(point: Position, size: Position, radius: float) -> list[Box]:
    """Return the places of a name around its point, best first: those nearest, then a little farther away."""
    (x, y), (width, height) = point, size
    found = []
    for far in (1.0, 2.2):
        for across, up in SIDES:
            reach = far * radius * (1.4 if not (across and up) else 1.0)
            left = x + across * reach + (-width / 2 if not across else -width if across < 0 else 0)
            bottom = y + up * reach + (-height / 2 if not up else -height if up < 0 else 0)
            found.append(Box(left, bottom, left + width, bottom + height))
    return found
