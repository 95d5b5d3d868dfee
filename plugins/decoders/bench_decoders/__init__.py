"""Decoders: greedy, beam search, sampling from truncated distributions, exhaustive search."""
