"""Formats of recorded outputs, a file each; `recording` chooses one."""
