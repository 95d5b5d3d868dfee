"""Draws from the examples of a cell: what they are, and that intervals from them hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from bench_core import Additive, Metric
from bench_core.computing.bootstrap import DRAWS, _counts, draws, mark
from bench_core.storage.bootstrap_replicates import block_length, percentiles, read_draws, write_draws


class Mean(Additive):
    better, unit, signature = 1, "", "mean"

    def measure(self, outcomes):
        return [*outcomes]

    def from_sums(self, sums, examples):
        return sums[0] / examples if examples else float("nan")


class Slow(Metric):
    better, unit, signature = 1, "", "mean"

    def measure(self, outcomes):
        return [*outcomes]

    def combine(self, parts):
        return sum(parts) / len(parts)


def counts(examples, block=1):
    return np.concatenate([*_counts(examples, block)])


@pytest.mark.parametrize(("examples", "block"), [(1, 1), (7, 1), (500, 1), (7, 3), (500, 8), (5, 9)])
def test_a_sample_has_as_many_examples_as_there_are(examples, block):
    found = counts(examples, block)
    assert found.shape == (DRAWS, examples)
    assert (found.sum(1) == examples).all()


def test_every_example_is_drawn_as_often_as_any_other():
    for block in (1, 5):
        share = counts(40, block).mean(0)
        assert abs(share - 1).max() < 5 * np.sqrt(block / DRAWS)


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
    import bench_core.computing.bootstrap as module

    whole = counts(30, 4)
    monkeypatch.setattr(module, "AT_ONCE", 100)
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


def test_intervals_cover_the_truth_as_often_as_they_say():
    """Of 400 cells of 60 skewed examples each: 95 % but for chance, and the little that percentiles lack."""
    dice = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        low, high = percentiles(draws(Mean(None), dice.exponential(size=60).tolist()))
        covered += low <= 1 <= high
    assert 0.89 < covered / 400 < 0.98


def test_without_blocks_the_interval_of_a_stream_is_too_narrow():
    """Of windows that resemble their neighbours (a first-order chain), single draws promise too much."""
    dice = np.random.default_rng(8)
    held = {1: 0, block_length(600): 0}
    for _ in range(150):
        values, noise = np.zeros(600), dice.normal(size=600)
        for place in range(1, 600):
            values[place] = 0.6 * values[place - 1] + noise[place]
        for block in held:
            low, high = percentiles(draws(Mean(None), values.tolist(), block))
            held[block] += low <= 0 <= high
    single, blocks = (count / 150 for count in held.values())
    assert single < 0.8
    assert blocks > single + 0.08
    assert blocks > 0.84


def test_nothing_is_drawn_from_nothing():
    assert draws(Mean(None), []).shape == (0,)
    assert percentiles(draws(Mean(None), [])) is None
    assert percentiles(np.array([1.0, np.nan])) is None


def test_only_the_same_examples_share_a_mark():
    assert mark([1, 2, 3], 1) == mark((1, 2, 3), 1)
    others = [mark([1, 2, 4], 1), mark([1, 2], 1), mark([1, 2, 3], 2), mark([1, 2, 3], 1, "other data")]
    assert len({mark([1, 2, 3], 1), *others}) == 5


def test_draws_are_read_as_they_were_written(tmp_path):
    found = {"b": np.arange(DRAWS) / 7, "a": np.full(DRAWS, np.inf)}
    write_draws(tmp_path / "draws", found)
    again = read_draws((tmp_path / "draws").read_bytes())
    assert [*again] == ["a", "b"]
    assert all((again[name] == found[name]).all() for name in found)
    write_draws(tmp_path / "more", dict(reversed(found.items())))
    assert (tmp_path / "more").read_bytes() == (tmp_path / "draws").read_bytes()


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x04K\x01.", b"\xff" * 40])
def test_anything_else_is_refused(content):
    with pytest.raises(ValueError, match="safetensors"):
        read_draws(content)


def test_draws_of_another_number_are_refused(tmp_path):
    write_draws(tmp_path / "draws", {"a": np.zeros(7)})
    with pytest.raises(ValueError, match="'a' is not 1000 numbers"):
        read_draws((tmp_path / "draws").read_bytes())
