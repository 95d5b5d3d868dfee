"""Self-terminating language models, and the consistency probe.

Not here: the consistent decoders (`bench_decoders`).
"""
