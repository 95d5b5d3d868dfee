"""Unconditional generation of words: the task, its metrics and its oracles."""
