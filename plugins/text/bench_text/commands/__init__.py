"""The command that manages corpora."""
