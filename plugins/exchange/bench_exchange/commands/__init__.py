"""Commands that carry runs from place to place, a file each."""

from collections import Counter


def counted(kinds: Counter[str]) -> str:
    """Return how many artifacts there are of each kind, such as `2 prepare, 4 train`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items())) or "no artifacts"
