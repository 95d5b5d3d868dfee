"""Recurrent language models, recurrent encoder-decoders, and n-gram baselines.

Not here: self-terminating models (`bench_strlm`), and output layers other than the softmax (`bench_ecoc`).
"""
