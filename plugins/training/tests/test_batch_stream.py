"""Batches are read ahead in order by a thread that ends with its reader, and are divided into parts by rows."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from bench_core import Batch
from bench_training.batch_stream import MAX_BATCHES_AHEAD, parts_of, pin, read_ahead, share_of, with_last


def threads():
    return [one for one in threading.enumerate() if one.name.startswith("batches")]


def batch(rows):
    ids = torch.arange(rows) * 3
    return Batch(ids, ids[:, None], torch.stack([ids, ids + 1], 1), ids * 0 + 2, extras={"weight": ids * 0.5})


class Broken(Exception):
    pass


def counted(number, pause=0.0, broken=False):
    for each in range(number):
        time.sleep(pause)
        yield each
    if broken:
        raise Broken


@pytest.mark.parametrize("number", [0, 1, MAX_BATCHES_AHEAD, MAX_BATCHES_AHEAD + 1, 50])
@pytest.mark.parametrize(("giving", "taking"), [(0.0, 0.0), (0.003, 0.0), (0.0, 0.003)])
def test_the_same_items_come_in_the_same_order(number, giving, taking):
    found = []
    for one in read_ahead(counted(number, giving), lambda one: one * 2):
        time.sleep(taking)
        found.append(one)
    assert found == [2 * each for each in range(number)]
    assert threads() == []


@pytest.mark.parametrize("number", [0, 1, 3, 20])
def test_an_error_comes_where_its_item_would(number):
    stream = read_ahead(counted(number, broken=True))
    assert [next(stream) for _ in range(number)] == [*range(number)]
    with pytest.raises(Broken):
        next(stream)
    assert threads() == []


def test_an_error_of_the_preparation_comes_where_its_item_would():
    def prepare(one):
        return 12 // (3 - one)

    stream = read_ahead(counted(9), prepare)
    assert [next(stream), next(stream), next(stream)] == [4, 6, 12]
    with pytest.raises(ZeroDivisionError):
        next(stream)
    assert threads() == []


def test_no_more_is_read_than_the_queue_holds_and_one():
    begun, stream = [], None

    def source():
        for each in range(40):
            begun.append(each)
            yield each

    stream = read_ahead(source())
    for taken in range(1, 30):
        next(stream)
        time.sleep(0.005)
        assert len(begun) <= taken + MAX_BATCHES_AHEAD + 1
    deadline = time.monotonic() + 300
    while len(begun) < 29 + MAX_BATCHES_AHEAD + 1:
        assert time.monotonic() < deadline, "it does read ahead"
        time.sleep(0.01)
    stream.close()


@pytest.mark.parametrize("taken", [1, 3])
def test_closing_it_ends_the_thread_and_the_iterator(taken):
    ended = []

    def source():
        try:
            while True:
                yield 1
        finally:
            ended.append(True)

    stream = read_ahead(source())
    for _ in range(taken):
        next(stream)
    assert len(threads()) == 1
    stream.close()
    assert threads() == []
    assert ended == [True], "files that it reads are closed"


def test_nothing_is_read_before_the_first_item_is_asked_for():
    begun = []

    def source():
        begun.append(True)
        yield 1

    stream = read_ahead(source())
    assert (begun, threads()) == ([], [])
    assert [*stream] == [1]


def test_without_a_gpu_batches_are_as_they_are():
    whole = batch(3)
    found = pin(whole)
    assert torch.equal(found.gold, whole.gold)
    assert torch.equal(found.extras["weight"], whole.extras["weight"])


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 13])
@pytest.mark.parametrize("number", [1, 2, 3, 8, 20])
def test_parts_are_the_rows_in_order_and_of_about_one_size(rows, number):
    whole, parts = batch(rows), parts_of(batch(rows), number)
    assert len(parts) == min(rows, number)
    for name in ("ids", "gold", "prompt", "length"):
        assert torch.equal(torch.cat([getattr(one, name) for one in parts]), getattr(whole, name))
    assert torch.equal(torch.cat([one.extras["weight"] for one in parts]), whole.extras["weight"])
    sizes = [len(one) for one in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("rows", [1, 2, 5, 13])
@pytest.mark.parametrize("number", [1, 2, 5, 9])
def test_shares_of_processes_are_the_parts_and_none_without_rows(rows, number):
    shares = [share_of(batch(rows), rank, number) for rank in range(number)]
    parts = parts_of(batch(rows), number)
    assert shares[len(parts) :] == [None] * (number - len(parts))
    for one, other in zip(shares, parts, strict=False):
        assert torch.equal(one.ids, other.ids)
        assert torch.equal(one.gold, other.gold)


@pytest.mark.parametrize("number", [0, 1, 2, 7])
def test_only_the_last_item_is_said_to_be_the_last(number):
    assert [*with_last(iter(range(number)))] == [(each, each == number - 1) for each in range(number)]
