"""A helper of a user: what several plugins import, although it is no plugin, with variables of its own."""

from __future__ import annotations

LEVEL = 1.0
TABLE = {"a": 1.0}
COUNTED = 0
ROWS = {"a": [1.0]}


def count():
    """Change the variables of this module, as its own code may."""
    global COUNTED
    COUNTED += 1
    for row in ROWS.values():
        row[0] += 1.0
