"""States of recurrent networks of transformers: nested tensors are joined row by row."""

from __future__ import annotations

import torch

from bench_huggingface.recurrent_states import concatenate


def nested(rows, value):
    return {"layers": (torch.full((rows, 2), value), [torch.full((rows,), -value)]), "offset": 4}


def plain(states):
    convolution, (recurrence,) = states["layers"]
    return convolution.tolist(), recurrence.tolist(), states["offset"]


def test_nested_states_are_joined_row_by_row_in_order():
    joined = concatenate([nested(1, 1.0), nested(2, 3.0)])
    assert plain(joined) == ([[1, 1], [3, 3], [3, 3]], [-1, -3, -3], 4)
    assert (type(joined["layers"]), type(joined["layers"][1])) == (tuple, list)


def test_the_states_of_a_single_row_stay_as_they_are():
    assert plain(concatenate([nested(1, 2.0)])) == plain(nested(1, 2.0))
