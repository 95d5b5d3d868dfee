"""Find places for names at the ends of lines, or next to points, without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple, TypeAlias

Position: TypeAlias = tuple[float, float]
#: Sides of a point at which its name may stand, best first
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
        """Return whether it lies completely inside another."""
        across = other.left <= self.left and self.right <= other.right
        return across and other.bottom <= self.bottom and self.top <= other.top


def spread_out(heights: Sequence[float], gap: float, low: float, high: float) -> list[float] | None:
    """Return heights as near as possible to `heights`, in the same order, with gaps of at least `gap`.

    All are from `low` to `high`; None if there is no room. Heights that are too near to each other are moved apart
    around their mean, by least squares (pool adjacent violators).
    """
    if (len(heights) - 1) * gap > high - low:
        return None
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    pools: list[tuple[float, int]] = []  # mean of pooled heights minus the gaps below them, and their number
    for rank, index in enumerate(order):
        pools.append((heights[index] - rank * gap, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (first, some), (second, others) = pools[-2:]
            pools[-2:] = [((first * some + second * others) / (some + others), some + others)]
    free = [min(max(mean, low), high - (len(order) - 1) * gap) for mean, size in pools for _ in range(size)]
    spread = [0.0] * len(order)
    for rank, index in enumerate(order):
        spread[index] = free[rank] + rank * gap
    return spread


def beside_points(
    points: Sequence[Position], sizes: Sequence[Position], bounds: Box, radius: float, obstacles: Sequence[Box] = ()
) -> list[Position | None]:
    """Return the lower left corner of each point's name, so that it overlaps no other name, point or obstacle.

    `sizes` are widths and heights of the names, `radius` the radius of the marks. None for a name without a place.
    """
    marks = [*(Box(x - radius, y - radius, x + radius, y + radius) for x, y in points), *obstacles]
    boxes: dict[int, Box] = {}
    for index in sorted(range(len(points)), key=lambda index: (-_neighbours(points, index, sizes[index][0]), index)):
        inside = (box for box in _around(points[index], sizes[index], radius) if box.inside(bounds))
        free = (box for box in inside if not any(map(box.overlaps, (*boxes.values(), *marks))))
        if place := next(free, None):
            boxes[index] = place
    return [boxes[index][:2] if index in boxes else None for index in range(len(points))]


def along(line: Sequence[Position], step: float, radius: float) -> list[Box]:
    """Return squares for names to avoid, at most `step` apart along a line of straight segments."""
    centres = []
    for (x, y), (next_x, next_y) in pairwise(line):
        parts = max(1, ceil(max(abs(next_x - x), abs(next_y - y)) / step))
        centres += [(x + (next_x - x) * part / parts, y + (next_y - y) * part / parts) for part in range(parts + 1)]
    return [Box(x - radius, y - radius, x + radius, y + radius) for x, y in centres or line]


def _neighbours(points: Sequence[Position], index: int, reach: float) -> int:
    x, y = points[index]
    return sum(abs(x - other) < reach and abs(y - height) < reach for other, height in points)


def _around(point: Position, size: Position, radius: float) -> list[Box]:
    """Return the places of a name around its point, best first: the nearest, then places slightly farther away."""
    (x, y), (width, height) = point, size
    boxes = []
    for far in (1.0, 2.2):
        for across, up in SIDES:
            reach = far * radius * (1.4 if not (across and up) else 1.0)
            left = x + across * reach + (-width / 2 if not across else -width if across < 0 else 0)
            bottom = y + up * reach + (-height / 2 if not up else -height if up < 0 else 0)
            boxes.append(Box(left, bottom, left + width, bottom + height))
    return boxes
