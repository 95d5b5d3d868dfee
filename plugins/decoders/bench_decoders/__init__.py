"""Decoders: greedy, beam search, sampling from truncated distributions, exhaustive search.

Decoders for a single model family (Insertion Transformer, state space models) are in the plugin of that family.
"""
