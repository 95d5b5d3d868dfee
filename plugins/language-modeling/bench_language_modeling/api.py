"""Public interface: the texts of corpora, and their sentences; does not import torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from bench_core import Split
from bench_language_modeling import corpus as _corpus
from bench_language_modeling import cpython
from bench_language_modeling.inspecting import has_files, inspect_sentences
from bench_language_modeling.sentences import SPLITTERS, sentences
from bench_language_modeling.settings import Corpus
from bench_language_modeling.text import Text

__all__ = [
    "SPLITTERS",
    "Corpus",
    "Text",
    "cpython",
    "digests",
    "files",
    "inspect_sentences",
    "lines",
    "sentences",
    "text",
]


def text(corpus: Any, data: Path) -> Text:
    """Return a corpus whose lines are read on request; `corpus` has the same form as for `lines`."""
    return _corpus.text(_parsed(corpus), data)


def lines(corpus: Any, split: Split, data: Path) -> list[str]:
    """Return the paragraphs or sentences of a split without headings, with words separated by single spaces.

    `corpus` is the value of `corpus:` in a suite: a name, a mapping, or the Settings parsed from them.
    """
    return text(corpus, data).paragraphs(split)


def digests(corpus: Any, data: Path) -> Mapping[str, str]:
    """Return the digest of each file of `corpus`, for a Config's `reads`."""
    return _corpus.reads(_parsed(corpus), data)


def files(corpus: Any, data: Path) -> list[Path]:
    """Return the files of `corpus`; an empty list for generated corpora and `cpython-docs`."""
    parsed = _parsed(corpus)
    return [*_corpus.files(parsed, data).values()] if has_files(parsed) else []


def _parsed(corpus: Any) -> Corpus:
    parsed: Corpus = TypeAdapter(Corpus).validate_python(corpus)
    return parsed
