"""Recurrent language models, recurrent encoder-decoders, and n-gram baselines."""
