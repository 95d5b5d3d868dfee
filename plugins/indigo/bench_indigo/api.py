"""Public interface for other distributions: layers for models, and the generation order of outputs.

Layers are imported on first use, because they load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench_indigo.trajectory import orders

if TYPE_CHECKING:
    from bench_indigo.blocks import EncodedSources, Pair, attention_mask, sinusoids
    from bench_indigo.network import TransformerNetwork

_LAZY = {
    "EncodedSources": "blocks",
    "Pair": "blocks",
    "TransformerNetwork": "network",
    "attention_mask": "blocks",
    "sinusoids": "blocks",
}

__all__ = ["EncodedSources", "Pair", "TransformerNetwork", "attention_mask", "orders", "sinusoids"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bench_indigo.{_LAZY[name]}"), name)
