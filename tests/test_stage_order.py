"""The longest trainings begin first, by predictions where these are known."""

from __future__ import annotations

import random
from itertools import permutations
from types import SimpleNamespace

import pytest

from bench_core.planning.stages import Stage
from bench_training.forecast import rough_size
from bench_upkeep.cost_estimates import CostEstimate, ranks


def stage(key, kind="train", **settings):
    return Stage(kind, key, settings, {}, key)


def order(stages, seconds, side_by_side=2):
    """Return the keys of stages in the order in which they begin, given the predicted seconds of some."""
    known = SimpleNamespace(of=lambda one: CostEstimate(seconds.get(one.key)))
    found = ranks(stages, known, side_by_side)
    return sorted(found, key=found.__getitem__)


def makespan(lengths, machines):
    """Return when the last of some stages ends, if each begins as soon as a machine is free."""
    free = [0.0] * machines
    for length in lengths:
        free[free.index(min(free))] += length
    return max(free)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("machines", [2, 3])
def test_a_run_takes_at_most_a_third_longer_than_in_the_best_of_all_orders(seed, machines):
    drawn = random.Random(seed)
    seconds = {f"k{number}": drawn.choice([1, 2, 3, 5, 8, 13, 40]) + drawn.random() for number in range(6)}
    best = min(makespan(lengths, machines) for lengths in permutations(seconds.values()))
    ours = makespan([seconds[key] for key in order([*map(stage, seconds)], seconds, machines)], machines)
    assert best - 1e-9 <= ours <= (4 / 3 - 1 / (3 * machines)) * best + 1e-9  # Graham (1969)


def test_the_order_of_the_plan_can_be_much_worse():
    seconds = {**{f"short{number}": 1.0 for number in range(8)}, "long": 8.0}
    ours = order([*map(stage, seconds)], seconds)
    assert makespan([*seconds.values()], 2) == 12.0
    assert makespan([seconds[key] for key in ours], 2) == 8.0


def test_one_at_a_time_all_stages_keep_the_order_of_the_plan():
    seconds = {"a": 1.0, "b": 9.0, "c": 4.0}
    stages = [stage("a"), stage("read a", "decode"), stage("b"), stage("c")]
    assert order(stages, seconds, side_by_side=1) == ["a", "read a", "b", "c"]


def test_what_reads_trainings_keeps_the_order_of_the_plan_however_long_it_takes():
    stages = [stage("a"), stage("short", "decode"), stage("long", "decode"), stage("b")]
    assert order(stages, {"a": 1.0, "b": 2.0, "short": 1.0, "long": 99.0}) == ["b", "a", "short", "long"]


def model(hidden, updates=10):
    return {"model": {"name": "m", "hidden": hidden}, "training": {"updates": updates, "batch_size": 8}}


def test_unknown_trainings_are_ordered_by_their_size_and_stand_among_those_that_are_known():
    stages = [stage("small", **model(10)), stage("large", **model(100)), stage("known", **model(50))]
    assert order(stages, {}) == ["large", "known", "small"]
    assert order(stages, {"known": 7.0}) == ["large", "known", "small"]  # at that rate, 28 s, 7 s and 0.3 s
    assert order(stages, {"known": 7.0, "large": 0.1, "small": 1.0}) == ["known", "small", "large"]


def test_a_rough_size_grows_with_updates_batches_and_models_and_with_nothing_else():
    size = rough_size(model(10))
    assert rough_size(model(10, updates=30)) == 3 * size
    assert rough_size(model(20)) > size
    other = model(10)
    other["training"]["lr"] = 5.0
    assert rough_size(other) == size
    other["training"]["batch_size"] = "auto"
    assert rough_size(other) > size
