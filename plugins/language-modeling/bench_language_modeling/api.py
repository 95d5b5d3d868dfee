"""What other plugins may use: the text of a corpus, tokens, and rows of unequal length, without its tasks.

What needs numpy and torch loads when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from bench_core import Split
from bench_language_modeling import corpus as _corpus
from bench_language_modeling.settings import BytePairs, Characters, Corpus, Settings, Words
from bench_language_modeling.tokens import Encoder, join, learn

if TYPE_CHECKING:
    from bench_language_modeling.ragged import Ragged, bucketed, cut, padded, shuffled

_RAGGED = ("Ragged", "bucketed", "cut", "padded", "shuffled")

__all__ = [
    "BytePairs", "Characters", "Corpus", "Encoder", "Ragged", "Settings", "Words", "bucketed", "cut", "digests",
    "join", "learn", "lines", "padded", "shuffled",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _RAGGED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("bench_language_modeling.ragged"), name)


def lines(corpus: Any, split: Split, data: Path) -> list[str]:
    """Return the lines of a split, words separated by single spaces: paragraphs or sentences, headings left out.

    `corpus` is what a suite says under `corpus:`: a name, a mapping, or the Settings made of them.
    """
    return _corpus.text(_parsed(corpus), data).paragraphs(split)


def digests(corpus: Any, data: Path) -> Mapping[str, str]:
    """Return the digest of each file behind `corpus`, for a Config's `reads`."""
    return _corpus.reads(_parsed(corpus), data)


def _parsed(corpus: Any) -> Corpus:
    parsed: Corpus = TypeAdapter(Corpus).validate_python(corpus)
    return parsed
