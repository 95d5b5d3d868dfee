"""Decoders: greedy, beam search, sampling from truncated distributions, exhaustive search.

Decoders for one family of models (Insertion Transformer, deep state space models) are in the plugin of that family.
"""
