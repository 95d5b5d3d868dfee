"""What other plugins may import: corpus text, sentences, tokens, and ragged rows.

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
from bench_language_modeling import cpython
from bench_language_modeling.sentences import SPLITTERS
from bench_language_modeling.settings import BytePairs, Characters, Corpus, Words
from bench_language_modeling.text import SPLITS, Text
from bench_language_modeling.tokens import Encoder, join, learn

if TYPE_CHECKING:
    from bench_language_modeling.ragged import Ragged, bucketed, cut, evenly, padded, shuffled
    from bench_language_modeling.tokenized import Tokenized, statistics

_LATER = dict.fromkeys(("Ragged", "bucketed", "cut", "evenly", "padded", "shuffled"), "ragged")
_LATER |= dict.fromkeys(("Tokenized", "statistics"), "tokenized")

__all__ = [
    "SPLITS", "SPLITTERS", "BytePairs", "Characters", "Corpus", "Encoder", "Ragged", "Text", "Tokenized",
    "Words", "bucketed", "cpython", "cut", "digests", "evenly", "join", "learn", "lines", "padded", "shuffled",
    "statistics", "text",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bench_language_modeling.{_LATER[name]}"), name)


def text(corpus: Any, data: Path) -> Text:
    """Return a corpus, which is read when its lines are asked for; `corpus` as for `lines`."""
    return _corpus.text(_parsed(corpus), data)


def lines(corpus: Any, split: Split, data: Path) -> list[str]:
    """Return the lines of a split, words separated by single spaces: paragraphs or sentences, headings left out.

    `corpus` is what a suite says under `corpus:`: a name, a mapping, or the Settings made of them.
    """
    return text(corpus, data).paragraphs(split)


def digests(corpus: Any, data: Path) -> Mapping[str, str]:
    """Return the digest of each file behind `corpus`, for a Config's `reads`."""
    return _corpus.reads(_parsed(corpus), data)


def _parsed(corpus: Any) -> Corpus:
    parsed: Corpus = TypeAdapter(Corpus).validate_python(corpus)
    return parsed
