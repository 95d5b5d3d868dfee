"""Corpora, tokenizers, batches, and a base class for text tasks.

`corpora` is the corpus catalogue (paths, digests, licences), `commands` has the commands. Other plugins import `api`.
"""
