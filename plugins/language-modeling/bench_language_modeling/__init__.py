"""Language modeling: the tasks of sentence completion and of token streams.

The corpus catalogue is in `bench_text`.
"""
