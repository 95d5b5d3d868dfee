"""Formats of recorded outputs, one per file; `recording` chooses the format."""
