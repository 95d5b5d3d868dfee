"""Draws from the examples of a cell: one by one, in groups and in blocks. What is made of them: tests/calibration."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import safetensors.numpy

from bench_core import Additive, Metric
from bench_core.computing.bootstrap import contributions, draws, replicates
from block_bootstrap import BLOCKS, REPLICATES, StoredReplicates, block_length, mark, write_replicates
from block_bootstrap.drawing import _counts


class Mean(Additive):
    better, unit, signature = 1, "", "mean"

    def measure(self, predictions):
        return [*predictions]

    def from_sums(self, sums, examples):
        return sums[0] / examples if examples else float("nan")


class Slow(Metric):
    better, unit, signature = 1, "", "mean"

    def measure(self, predictions):
        return [*predictions]

    def combine(self, parts):
        return sum(parts) / len(parts)


def counts(examples, block=1):
    return np.concatenate([*_counts(examples, block)])


@pytest.mark.parametrize(("examples", "block"), [(1, 1), (7, 1), (500, 1), (7, 3), (500, 8), (5, 9)])
def test_a_sample_has_as_many_examples_as_there_are(examples, block):
    found = counts(examples, block)
    assert found.shape == (REPLICATES, examples)
    assert (found.sum(1) == examples).all()


def test_every_example_is_drawn_as_often_as_any_other():
    for block in (1, 5):
        share = counts(40, block).mean(0)
        assert abs(share - 1).max() < 5 * np.sqrt(block / REPLICATES)


def test_how_often_an_example_is_drawn_is_binomial():
    found = counts(50)
    assert abs((found == 0).mean() - (1 - 1 / 50) ** 50) < 0.01
    assert abs(found.var() - (1 - 1 / 50)) < 0.02


def test_blocks_keep_neighbours_together():
    found = counts(60, 6).astype(float)
    together = np.corrcoef(found[:, 10], found[:, 11])[0, 1]
    apart = np.corrcoef(found[:, 10], found[:, 40])[0, 1]
    assert together > 0.6
    assert abs(apart) < 0.2


def test_samples_do_not_depend_on_how_many_are_worked_on_at_a_time(monkeypatch):
    import block_bootstrap.drawing as module

    whole = counts(30, 4)
    monkeypatch.setattr(module, "MAX_COUNTS", 100)
    assert (counts(30, 4) == whole).all()


def test_summed_metrics_are_resampled_as_others_are():
    values = np.random.default_rng(0).normal(size=23).tolist()
    assert draws(Mean(None), values) == pytest.approx(draws(Slow(None), values), abs=1e-12)
    assert draws(Mean(None), values, 4) == pytest.approx(draws(Slow(None), values, 4), abs=1e-12)


def test_the_spread_of_draws_is_the_standard_error():
    values = np.random.default_rng(0).normal(size=400)
    found = draws(Mean(None), values.tolist())
    assert found.std() == pytest.approx(values.std() / 20, rel=0.1)
    assert found.mean() == pytest.approx(values.mean(), abs=0.01)


def chain(count, correlation, seed):
    """Return numbers of variance 1, each correlated with the one before."""
    rng = np.random.default_rng(seed).normal(size=count) * np.sqrt(1 - correlation**2)
    rng[0] /= np.sqrt(1 - correlation**2)
    for place in range(1, count):
        rng[place] += correlation * rng[place - 1]
    return rng


def test_groups_are_drawn_as_wholes():
    """Of groups whose members are equal, the draws are those of one member each."""
    values = np.random.default_rng(0).normal(size=20)
    found = replicates(Mean(None), np.repeat(values, 3).tolist(), np.repeat(np.arange(20) + 100, 3).tolist(), False)
    assert found.units == 20
    assert found.draws[0] == pytest.approx(draws(Mean(None), values.tolist()))
    unequal = replicates(Mean(None), [1.0, 1.0, 4.0], [7, 7, 5], False)
    assert {*np.round(unequal.draws[0], 6)} == {1.0, 2.0, 4.0}, "two groups: 5 twice, both, 7 twice"


def test_examples_that_are_groups_of_their_own_are_drawn_as_examples():
    values = [1.0, 5.0, 2.0]
    assert (replicates(Mean(None), values, [4, 9, 2], False).draws[0] == draws(Mean(None), values)).all()


def test_nothing_is_drawn_from_a_whole_population_or_from_nothing():
    class Sum(Mean):
        population = "whole"

    assert replicates(Sum(None), [1.0, 2.0], [], False).draws.shape == (0, REPLICATES)
    assert replicates(Sum(None), [1.0, 2.0], [], False).units == 0
    assert replicates(Mean(None), [], [], False).units == 0
    assert draws(Mean(None), []).shape == (0,)


def test_streams_are_drawn_in_blocks_of_all_lengths_that_leave_eight_of_them():
    found = replicates(Mean(None), chain(100, 0.5, 1).tolist(), [*range(100)], True)
    assert len(found.draws) == BLOCKS.index(8) + 1
    assert (found.draws[2] == draws(Mean(None), chain(100, 0.5, 1).tolist(), 4)).all()


def test_longer_memory_needs_longer_blocks():
    lengths = [np.median([block_length(chain(1_000, r, seed)) for seed in range(30)]) for r in (0.0, 0.3, 0.6, 0.9)]
    assert lengths[0] <= 2
    assert lengths == sorted(lengths)
    assert lengths[3] > 20


@pytest.mark.slow
def test_blocks_as_long_as_estimated_show_the_variance_of_the_mean_of_a_stream():
    """That of a first-order chain: (1 + r) / (1 - r) times that of independent numbers."""
    ratios, single = [], []
    for seed in range(40):
        values = chain(800, 0.6, seed).tolist()
        found = replicates(Mean(None), values, [*range(800)], True)
        place = next(place for place, length in enumerate(BLOCKS) if length >= found.block)
        ratios.append(found.draws[place].var() * 800 / 4)
        single.append(found.draws[0].var() * 800 / 4)
    assert 0.8 < np.mean(ratios) < 1.1, "blocks miss a little of it"
    assert np.mean(single) < 0.3


@pytest.mark.parametrize("series", [[], [1.0], [2.0] * 50, [1.0, np.nan, 2.0], [np.inf] * 9])
def test_what_has_no_correlations_has_blocks_of_one(series):
    assert block_length(np.array(series)) == 1


@pytest.mark.parametrize("power", [-900, -200, 200, 900])
def test_the_length_of_blocks_does_not_depend_on_the_size_of_numbers(power):
    stream = np.cumsum(np.random.default_rng(3).normal(size=400)) / 10
    assert block_length(np.ldexp(stream, power)) == block_length(stream) > 5


def test_contributions_are_what_a_score_loses_without_an_example():
    values = np.random.default_rng(0).normal(size=15).tolist()
    without = [-np.mean(values[:place] + values[place + 1 :]) for place in range(15)]
    assert contributions(Mean(None), values) == pytest.approx(without)
    assert contributions(Slow(None), values) == pytest.approx(without)


def test_only_the_same_examples_in_the_same_groups_share_a_mark():
    assert mark([1, 2, 3]) == mark((1, 2, 3))
    others = [mark([1, 2, 4]), mark([1, 2]), mark([1, 2, 3], [1, 1, 2]), mark([1, 2, 3], (), "other data")]
    assert len({mark([1, 2, 3]), *others}) == 5


def test_draws_are_read_as_they_were_written(tmp_path):
    found = {"a": np.full((1, REPLICATES), np.inf), "b": np.arange(3 * REPLICATES).reshape(3, REPLICATES) / 7}
    found |= {"c": np.zeros((0, REPLICATES)), "ü": np.full((1, REPLICATES), np.nan)}
    write_replicates(tmp_path / "draws", found.items())
    again = StoredReplicates(tmp_path / "draws")
    assert [*again] == ["a", "b", "c", "ü"]
    assert all(again[name].tobytes() == found[name].tobytes() for name in found)
    assert {name: one.shape for name, one in again.items()} == {name: one.shape for name, one in found.items()}
    assert "d" not in again
    assert (tmp_path / "draws").read_bytes() == safetensors.numpy.save(found)
    write_replicates(tmp_path / "none", ())
    assert not StoredReplicates(tmp_path / "none")
    assert {path.name for path in tmp_path.iterdir()} == {"draws", "none"}


def test_draws_are_written_and_read_one_at_a_time(tmp_path):
    def peak(number):
        tracemalloc.start()
        write_replicates(
            tmp_path / "draws", ((f"{place:04}", np.full((1, REPLICATES), place / 7)) for place in range(number))
        )
        total = sum(draws.mean() for draws in StoredReplicates(tmp_path / "draws").values())
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == pytest.approx(sum(range(number)) / 7)
        return found

    peak(10)
    assert (
        peak(1_000) < peak(100) + 900 * 1_000
    )  # each has 8,000 bytes; its name and place in the table a few hundred


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x04K\x01.", b"\xff" * 40])
def test_anything_else_is_refused(tmp_path, content):
    (tmp_path / "draws").write_bytes(content)
    with pytest.raises(ValueError, match="safetensors"):
        StoredReplicates(tmp_path / "draws")


@pytest.mark.parametrize("shape", [(7,), (REPLICATES,), (1, 7), (len(BLOCKS) + 1, REPLICATES), (1, 1, REPLICATES)])
def test_draws_of_another_shape_are_refused(tmp_path, shape):
    write_replicates(tmp_path / "draws", [("a", np.zeros(shape))])
    with pytest.raises(ValueError, match="'a' does not have 1000 replicates per block length"):
        StoredReplicates(tmp_path / "draws")
