"""Attention to buffers, against torch's own attention to what they show."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from bench_huggingface.attention import attend, view_of

ROWS, HEADS, SIZE, LENGTH, CAPACITY = 3, 4, 8, 5, 9


def given(keys, queries):
    """Return a module, queries, and buffers of which the first places are shown."""
    torch.manual_seed(0)
    query = torch.randn(ROWS, HEADS, queries, SIZE)
    buffers = [torch.randn(ROWS, keys, CAPACITY, size) for size in (SIZE, SIZE)]
    return SimpleNamespace(num_key_value_groups=HEADS // keys, is_causal=True), query, buffers


@pytest.mark.parametrize("more", [{}, {"scaling": 0.3}, {"mask": True}, {"position_bias": True}])
@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("keys", [HEADS, 2, 1])
def test_it_is_torchs_own_whatever_the_buffer_holds_behind(keys, queries, more):
    module, query, buffers = given(keys, queries)
    shape = (ROWS, HEADS, queries, LENGTH)
    mask = torch.rand(ROWS, 1, queries, LENGTH) > 0.4 if "mask" in more else None
    if mask is not None:
        mask[..., 0] = True
    settings = {"scaling": more.get("scaling")}
    if "position_bias" in more:
        settings["position_bias"] = torch.randn(shape)
    found, _ = attend(module, query, *(view_of(buffer, LENGTH) for buffer in buffers), mask, **settings)
    plain = [buffer[:, :, :LENGTH].clone() for buffer in buffers]
    wanted, _ = sdpa_attention_forward(module, query, *plain, mask, **settings)
    torch.testing.assert_close(found, wanted)
    for buffer in buffers:
        buffer[:, :, LENGTH:] = 1e6
    again, _ = attend(module, query, *(view_of(buffer, LENGTH) for buffer in buffers), mask, **settings)
    torch.testing.assert_close(again, wanted)


def test_what_is_no_buffer_is_left_to_torch():
    module, query, buffers = given(HEADS, 1)
    part = [buffer[:, :, :LENGTH] for buffer in buffers]
    assert torch.equal(attend(module, query, *part, None)[0], sdpa_attention_forward(module, query, *part, None)[0])
