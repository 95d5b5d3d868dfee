"""Machine translation: parallel corpora, your own files, and a generated language.

Models are in other plugins, translation metrics in `bench_metrics`.
"""
