"""Decoders: greedy, beam search, sampling from truncated distributions, exhaustive search.

Not here: decoders of one family of models (Insertion Transformer, deep state space models), which come with it.
"""
