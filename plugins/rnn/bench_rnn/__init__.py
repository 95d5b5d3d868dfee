"""Recurrent language models, recurrent encoder-decoders, and n-gram baselines.

Self-terminating models are in `bench_strlm`; output layers other than the softmax are in `bench_ecoc`.
"""
