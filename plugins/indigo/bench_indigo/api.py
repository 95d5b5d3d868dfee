"""The layers that other plugins may build models from."""

from bench_indigo.blocks import EncodedSources, Pair, attention_mask, sinusoids
from bench_indigo.network import TransformerNetwork

__all__ = ["EncodedSources", "Pair", "TransformerNetwork", "attention_mask", "sinusoids"]
