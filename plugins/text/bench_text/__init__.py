"""Corpora by name, their files, and reading text line by line.

`corpora` is the catalogue (places, digests, licences), `commands` holds the commands. Other plugins import `api`.
"""
