"""Decoders: greedy, beam search, sampling from truncated distributions, exhaustive search.

Not here: decoders for one family of models (Insertion Transformer, state space models), which come with its plugin.
"""
