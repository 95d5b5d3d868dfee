"""Public interface for other distributions: layers for models, and the generation order of outputs."""

from bench_indigo.blocks import EncodedSources, Pair, attention_mask, sinusoids
from bench_indigo.network import TransformerNetwork
from bench_indigo.trajectory import orders

__all__ = ["EncodedSources", "Pair", "TransformerNetwork", "attention_mask", "orders", "sinusoids"]
