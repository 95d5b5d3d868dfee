"""What other plugins may import: parallel files, and pairs of token sequences.

What needs numpy and torch loads when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bench_translation.corpus import Lines, Parallel, parallel, reads
from bench_translation.settings import Both, Files, Pair, Tokenizers

if TYPE_CHECKING:
    from bench_translation.examples import Examples, load_lines, save_further, save_lines, with_further

_EXAMPLES = ("Examples", "load_lines", "save_further", "save_lines", "with_further")

__all__ = [
    "Both", "Examples", "Files", "Lines", "Pair", "Parallel", "Tokenizers", "load_lines", "parallel", "reads",
    "save_further", "save_lines", "with_further",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _EXAMPLES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("bench_translation.examples"), name)
