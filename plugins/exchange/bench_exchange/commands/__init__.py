"""Commands that move, merge and verify runs, one per file."""

from collections import Counter


def format_counts(kinds: Counter[str]) -> str:
    """Return the number of artifacts of each kind, such as `2 prepare, 4 train`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items())) or "no artifacts"
