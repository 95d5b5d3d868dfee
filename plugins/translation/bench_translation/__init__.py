"""Machine translation: parallel corpora, your own files, and a generated language.

Not here: models, and metrics of translation (`bench_metrics`).
"""
