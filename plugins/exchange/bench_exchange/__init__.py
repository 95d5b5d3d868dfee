"""Runs that travel between machines: export, import, merge."""
