"""Bytes flipped in a store: each is reported, and no report is another for it.

A sample of `tests/drills/flip_bytes.py`, which can flip every byte of every file.
"""

from __future__ import annotations

from random import Random

import pytest
from bench_small.flipping import Place


@pytest.fixture
def place(tmp_path, small):
    return Place(tmp_path)


@pytest.mark.slow
def test_flipped_bytes_of_any_file_are_reported_with_its_name(place):
    overlooked = [str(flip) for flip in place.some(Random(0), 300) if not place.told(flip)]
    assert overlooked == []


@pytest.mark.slow
def test_flips_in_all_kinds_of_files_at_once_leave_no_trace_in_reports(place):
    flips = place.one_of_each(Random(1))
    assert {flip.kind for flip in flips} == {"prepare", "train", "decode", "score", "measure"}
    assert place.repaired(*flips) == []


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("name", ["task_info.json", "history.jsonl", "samples.json", "draws.npy"])
def test_a_flip_in_what_only_reports_read_is_repaired_by_a_run_that_had_nothing_to_do(place, name):
    (flip,) = [one for one in place.one_of_each(Random(2)) if one.name == name]
    place.flip(flip)
    found, warnings = place.report()
    assert found == place.wanted
    assert any(name in text and "It is computed again" in text for text in warnings)
    assert not list(place.store.get(flip.kind, flip.key).problems())


@pytest.mark.nightly
def test_a_flip_in_each_kind_of_file_leaves_no_trace_in_reports(place):
    for flip in place.one_of_each(Random(3)):
        assert place.repaired(flip) == [], str(flip)
