"""Unconditional word generation: the task, its metrics and its oracles."""
