"""Names beside lines and points: as near as possible, and over nothing else."""

from __future__ import annotations

import random
from functools import partial
from itertools import combinations, pairwise, product

import pytest

from bench_reports.figures.placing import Box, along, beside_points, spread_out


def squares(heights, spots):
    """Return how far spots are from heights, as a sum of squares."""
    return sum((one - other) ** 2 for one, other in zip(spots, heights, strict=True))


def test_heights_with_room_stay_where_they_are():
    assert spread_out([5.0, 1.0, 9.0], 2.0, 0.0, 10.0) == [5.0, 1.0, 9.0]
    assert spread_out([], 2.0, 0.0, 1.0) == []


def test_heights_too_near_are_moved_apart_around_their_mean():
    assert spread_out([5.0, 5.0, 5.0], 2.0, 0.0, 10.0) == [3.0, 5.0, 7.0]
    assert spread_out([0.0, 0.0], 2.0, 0.0, 10.0) == [0.0, 2.0]
    assert spread_out([10.0, 10.0], 2.0, 0.0, 10.0) == [8.0, 10.0]
    assert spread_out([1.0, 2.0, 3.0], 2.0, 0.0, 3.9) is None


@pytest.mark.slow
def test_heights_are_the_nearest_of_all_that_have_room():
    draw = random.Random(0)
    for _ in range(50):
        heights = [draw.randint(0, 12) for _ in range(draw.randint(1, 4))]
        gap = draw.choice([1, 2, 3])
        found = spread_out(heights, gap, 0, 12)
        order = sorted(range(len(heights)), key=lambda one: heights[one])
        grid = [step / 2 for step in range(25)]
        allowed = [
            spots
            for spots in product(grid, repeat=len(heights))
            if all(spots[b] - spots[a] >= gap for a, b in pairwise(order))
        ]
        if found is None:
            assert not allowed
            continue
        assert all(found[b] - found[a] >= gap - 1e-9 for a, b in pairwise(order))
        assert all(-1e-9 <= one <= 12 + 1e-9 for one in found)
        far = partial(squares, heights)
        assert far(found) <= min(map(far, allowed)) + 1e-9


BOUNDS = Box(0, 0, 400, 300)


def test_names_of_points_overlap_neither_each_other_nor_points_nor_obstacles():
    draw = random.Random(1)
    placed = 0
    for _ in range(300):
        points = [(draw.uniform(10, 390), draw.uniform(10, 290)) for _ in range(draw.randint(1, 12))]
        sizes = [(draw.uniform(10, 80), 12.0) for _ in points]
        obstacles = along([(0.0, draw.uniform(0, 300)), (400.0, draw.uniform(0, 300))], 4, 2)
        found = beside_points(points, sizes, BOUNDS, 4, obstacles)
        if None in found:
            continue
        placed += 1
        boxes = [Box(x, y, x + width, y + height) for (x, y), (width, height) in zip(found, sizes, strict=True)]
        marks = [Box(x - 4, y - 4, x + 4, y + 4) for x, y in points]
        assert all(box.inside(BOUNDS) for box in boxes)
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        assert not any(box.overlaps(mark) for box in boxes for mark in [*marks, *obstacles])
        for box, (x, y) in zip(boxes, points, strict=True):
            assert abs(min(max(x, box.left), box.right) - x) < 20
            assert abs(min(max(y, box.bottom), box.top) - y) < 20, "a name stands near its point"
    assert placed > 150


def test_a_name_without_any_place_has_none_and_the_others_keep_theirs():
    assert None not in beside_points([(50, 50), (50, 50)], [(90, 12), (90, 12)], Box(0, 0, 100, 100), 4)
    assert beside_points([(50, 50)], [(101, 12)], Box(0, 0, 100, 100), 4) == [None]
    found = beside_points([(50, 6)] * 9, [(40, 12)] * 9, Box(0, 0, 100, 14), 4)
    assert found.count(None) == 7, "one to the right, one to the left"
    assert beside_points([], [], BOUNDS, 4) == []


def test_boxes_that_share_an_edge_do_not_overlap():
    box = Box(0, 0, 10, 10)
    assert not box.overlaps(Box(10, 0, 20, 10))
    assert box.overlaps(Box(9.9, 9.9, 20, 20))
    assert box.inside(box)
    assert not box.inside(Box(1, 0, 20, 20))


def test_squares_along_a_line_leave_no_hole_in_it():
    draw = random.Random(2)
    for _ in range(50):
        line = [(draw.uniform(0, 100), draw.uniform(0, 100)) for _ in range(4)]
        boxes = along(line, 4, 2.5)
        for (x, y), (next_x, next_y) in pairwise(line):
            for share in (0, 0.1, 0.37, 0.5, 0.93, 1):
                place = x + (next_x - x) * share, y + (next_y - y) * share
                assert any(box.left <= place[0] <= box.right and box.bottom <= place[1] <= box.top for box in boxes)
    assert along([(1.0, 2.0)], 4, 1) == [Box(0, 1, 2, 3)]
    assert along([], 4, 1) == []


@pytest.mark.parametrize("count", [2, 5, 9])
def test_names_stand_in_the_order_of_the_lines(count):
    draw = random.Random(count)
    heights = [draw.uniform(0, 100) for _ in range(count)]
    found = spread_out(heights, 9, 0, 100)
    assert sorted(range(count), key=found.__getitem__) == sorted(range(count), key=heights.__getitem__)
