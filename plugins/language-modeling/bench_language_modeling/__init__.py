"""Language modeling: the sentence completion and stream tasks.

Not here: models, metrics, and the catalogue of corpora (`bench_text`).
"""
