"""Language modeling: the sentence completion and stream tasks.

The corpus catalogue is in `bench_text`.
"""
