"""The command that looks after corpora."""
