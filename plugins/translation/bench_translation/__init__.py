"""Machine translation for bench: parallel corpora, own files and a generated language."""
