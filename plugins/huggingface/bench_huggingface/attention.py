"""Attention of one query per row to a preallocated cache on the CPU, more than twice as fast as torch's attention.

Used by architectures with configurable attention; falls back to torch's attention in all other cases.
"""

from typing import Any, TypeAlias

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "bench-buffers"  # registered in transformers
Attention: TypeAlias = tuple[Tensor, Tensor | None]


def view_of(buffer: Tensor, length: int) -> Tensor:
    """Return the first `length` positions of a buffer [N, heads, capacity, size]; attribute `whole` is the buffer."""
    part = buffer[:, :, :length]
    part.whole = buffer  # type: ignore[attr-defined]
    return part


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> Attention:
    """Return the attention output for each query [N, K, heads, size].

    Reads the whole buffer, which must be finite: contiguous reads save more time than unused positions cost.
    """
    keys, values = getattr(key, "whole", None), getattr(value, "whole", None)
    unusual = attention_mask is not None or any(more.get(name) is not None for name in ("position_bias", "softcap"))
    if keys is None or values is None or unusual or query.shape[2] > 1 or query.device.type != "cpu":
        output: Attention = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **more)
        return output
    rows, heads, _, size = query.shape
    query = query.reshape(rows * keys.shape[1], -1, size)  # heads that share a key are adjacent
    scores = query * (size**-0.5 if scaling is None else scaling) @ keys.flatten(0, 1).transpose(1, 2)
    scores[:, :, key.shape[2] :] = -float("inf")
    return (scores.softmax(2) @ values.flatten(0, 1)).view(rows, 1, heads, -1), None


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
