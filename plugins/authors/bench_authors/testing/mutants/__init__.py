"""Deliberate mistakes: each returns its case with one thing wrong, for the contracts to find."""
