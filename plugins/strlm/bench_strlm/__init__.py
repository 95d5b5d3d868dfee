"""Self-terminating language models, and the consistency probe.

Consistent decoders are in `bench_decoders`.
"""
