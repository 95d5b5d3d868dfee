"""Draws from the examples of a cell: what they are, and that intervals from them hold what they promise."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import safetensors.numpy

from bench_core import Additive, Metric
from bench_core.computing.bootstrap import DRAWS, _counts, draws, mark
from bench_core.storage.bootstrap_replicates import StoredDraws, block_length, percentiles, write_draws


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
    found = {"a": np.full(DRAWS, np.inf), "b": np.arange(DRAWS) / 7, "ü": np.full(DRAWS, np.nan)}
    write_draws(tmp_path / "draws", found.items())
    again = StoredDraws(tmp_path / "draws")
    assert [*again] == ["a", "b", "ü"]
    assert all(again[name].tobytes() == found[name].tobytes() for name in found)
    assert "c" not in again
    assert (tmp_path / "draws").read_bytes() == safetensors.numpy.save(found)
    write_draws(tmp_path / "none", ())
    assert not StoredDraws(tmp_path / "none")
    assert {path.name for path in tmp_path.iterdir()} == {"draws", "none"}


def test_draws_are_written_and_read_one_at_a_time(tmp_path):
    def peak(number):
        tracemalloc.start()
        write_draws(tmp_path / "draws", ((f"{place:04}", np.full(DRAWS, place / 7)) for place in range(number)))
        total = sum(draws.mean() for draws in StoredDraws(tmp_path / "draws").values())
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
        StoredDraws(tmp_path / "draws")


def test_draws_of_another_number_are_refused(tmp_path):
    write_draws(tmp_path / "draws", [("a", np.zeros(7))])
    with pytest.raises(ValueError, match="'a' is not 1000 numbers"):
        StoredDraws(tmp_path / "draws")
