"""Decoders for bench: greedy, beam, sampling from trimmed distributions, exhaustive."""
