"""Predictions on disk."""

from __future__ import annotations

import gc
import gzip
import json
import tracemalloc
import zlib

import pytest

from bench_core import Additive, Hypothesis, MetricConfig, Prediction, TaskInfo
from bench_core.computing.bootstrap import draws
from bench_core.computing.result_checks import measured
from bench_core.storage.predictions import References, by_id, read_predictions, write_lines, write_predictions
from plain_files.packed_lines import CHUNK_BYTES


def test_texts_may_hold_whatever_ends_a_line_elsewhere(tmp_path):
    strange = "a\u2028b\u2029c\x85d\x0be\x0cf\r\ng\x1c"
    predictions = [
        Prediction(0, prompt=strange, references=[strange], hypotheses=[Hypothesis([1, 2], True)], texts=[strange]),
        Prediction(1, texts=["plain"], hypotheses=[Hypothesis([], False, actions=[3])]),
    ]
    write_predictions(tmp_path / "o.gz", predictions)
    assert read_predictions(tmp_path / "o.gz") == predictions
    write_predictions(tmp_path / "none.gz", [])
    assert read_predictions(tmp_path / "none.gz") == []


def predictions(number, start=0):
    for place in range(start, start + number):
        text = f"text {place} of {number}"
        found = Hypothesis([place % 7 + 1] * 20, place % 3 > 0, log_prob=-place / 7, values={"entropy": place / 3})
        yield Prediction(
            place, text, [text, "another"], [found], [text.upper()], -place / 3, 21, 5, 1.5, {"bits": 1.0}
        )


def peak(work):
    """Return the most bytes that Python held at a time while it worked, besides what it held before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_file_has_the_bytes_of_all_its_lines_packed_at_once(tmp_path):
    lines = [{"place": place, "text": "é" * (place % 50)} for place in range(30_000)]
    write_lines(tmp_path / "lines.gz", lines)
    text = "".join(json.dumps(line, sort_keys=True, ensure_ascii=False) + "\n" for line in lines).encode()
    assert len(text) > 2 * CHUNK_BYTES
    assert gzip.decompress((tmp_path / "lines.gz").read_bytes()) == text
    assert (tmp_path / "lines.gz").read_bytes() == zlib.compress(text, 6, wbits=31)


def test_predictions_come_in_order_of_id_however_they_were_computed(tmp_path):
    ordered = [*predictions(100)]
    shuffled = [ordered[place * 37 % 100] for place in range(100)]
    assert by_id(shuffled) == ordered
    write_predictions(tmp_path / "ordered.gz", ordered)
    write_predictions(tmp_path / "shuffled.gz", by_id(shuffled))
    assert (tmp_path / "ordered.gz").read_bytes() == (tmp_path / "shuffled.gz").read_bytes()
    assert read_predictions(tmp_path / "shuffled.gz") == ordered


@pytest.mark.parametrize("few", [True, False], ids=["in memory", "on disk"])
def test_predictions_on_disk_are_a_sequence_like_a_list(tmp_path, monkeypatch, few):
    monkeypatch.setattr("plain_files.packed_lines.IN_MEMORY", 2**20 if few else 100)
    listed = [*predictions(50)]
    write_predictions(tmp_path / "o.gz", listed)
    for found in (read_predictions(tmp_path / "o.gz"), by_id(listed, tmp_path)):
        assert len(found) == 50
        assert [found[place] for place in (3, 4, 30, 4, 0, -1, 49)] == [listed[i] for i in (3, 4, 30, 4, 0, -1, 49)]
        assert found[2:8] == listed[2:8]
        assert found[::-7] == listed[::-7]
        assert [*reversed(found)] == listed[::-1]
        assert [*zip(found, found, strict=True)] == [*zip(listed, listed, strict=True)]
        assert found == listed
        assert found != listed[1:]
        for place in (50, -51):
            with pytest.raises(IndexError):
                found[place]
    assert [path.name for path in tmp_path.iterdir()] == ["o.gz"]


def test_predictions_read_in_any_order_unpack_their_file_at_most_twice(tmp_path, monkeypatch):
    write_predictions(tmp_path / "o.gz", predictions(500))
    opened = []
    monkeypatch.setattr(gzip, "open", lambda path, own=gzip.open: opened.append(path) or own(path))
    found = read_predictions(tmp_path / "o.gz")
    assert [found[place].id for place in range(400)] == [*range(400)]
    assert len(opened) == 2  # one to count, one to read
    assert [found[place * 37 % 500].id for place in range(500)] == [place * 37 % 500 for place in range(500)]
    assert len(opened) == 3


def test_references_are_those_of_each_id_wherever_its_prediction_stands():
    listed = [Prediction(5, references=["five"]), Prediction(2, references=["two", "deux"]), Prediction(9)]
    found = References(listed)
    assert dict(found) == {2: ["two", "deux"], 5: ["five"], 9: []}
    assert len(found) == 3
    assert 3 not in found
    assert 10 not in found
    assert dict(References([])) == {}


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_number_of_predictions(tmp_path, monkeypatch):
    monkeypatch.setattr("plain_files.packed_lines.IN_MEMORY", 2**16)

    def compute(number):
        write_predictions(tmp_path / f"{number}.gz", by_id(predictions(number), tmp_path))

    def read(number):
        found = read_predictions(tmp_path / f"{number}.gz")
        assert sum(len(one.texts) for one in found) == len(found) == number
        assert {len(each) for each in References(found).values()} == {2}

    for work in (compute, read):
        work(500)
        few, many = (peak(lambda number=number, work=work: work(number)) for number in (2_000, 8_000))
        assert many < few + 6_000 * 60  # the lines have 300 bytes each, the objects 3,000


@pytest.mark.parametrize("few", [True, False])
def test_metrics_that_sum_give_the_same_bits_whether_statistics_are_listed_or_yielded(few, monkeypatch):
    monkeypatch.setattr("plain_files.packed_lines.IN_MEMORY", 2**20 if few else 100)

    class Mean(Additive):
        better, unit, signature = 0, "", "mean"

        def __init__(self, listed):
            super().__init__(MetricConfig())
            self.listed = listed

        def measure(self, predictions):
            found = ([one.target_log_prob / 7, 1] for one in predictions)
            return [*found] if self.listed else found

        def from_sums(self, sums, examples):
            return sums[0] / sums[1]

    def numbers(listed):
        metric, parts, value = measured(Mean(listed), TaskInfo(["</s>"]), [*predictions(300)])
        return value, [*draws(metric, parts)], [*draws(metric, parts, 7)], [*parts]

    assert numbers(True) == numbers(False)


@pytest.mark.slow
def test_statistics_are_gone_through_once_for_all_resamples():
    class Parts(list):
        passes = 0

        def __iter__(self):
            Parts.passes += 1
            return super().__iter__()

    class Sum(Additive):
        def measure(self, predictions):
            raise NotImplementedError

        def from_sums(self, sums, examples):
            return sums[0]

    few, many = [], []
    for number, found in ((8_000, few), (40_000, many)):  # so that resamples come in two turns and in ten
        Parts.passes = 0
        draws(Sum(None), Parts(range(number)))
        found.append(Parts.passes)
    assert few == many == [1]
