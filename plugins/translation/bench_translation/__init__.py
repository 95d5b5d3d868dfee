"""Machine translation: parallel corpora, your own files, and a generated language."""
