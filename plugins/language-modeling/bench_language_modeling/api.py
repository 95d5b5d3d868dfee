"""Public interface: the texts of corpora, their sentences, and hidden Markov models; does not import torch.

Names are imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core import Split
from bench_language_modeling.settings import Corpus, check_successors

if TYPE_CHECKING:
    from bench_language_modeling import cpython
    from bench_language_modeling.hidden_markov import HiddenMarkov, random_model, with_ends
    from bench_language_modeling.inspecting import inspect_sentences
    from bench_language_modeling.sentences import SPLITTERS, sentences
    from bench_language_modeling.text import Text

_HOMES = {
    "SPLITTERS": "sentences", "HiddenMarkov": "hidden_markov", "Text": "text", "inspect_sentences": "inspecting",
    "random_model": "hidden_markov", "sentences": "sentences", "with_ends": "hidden_markov",
}  # fmt: skip

__all__ = [
    "SPLITTERS",
    "Corpus",
    "HiddenMarkov",
    "Text",
    "check_successors",
    "cpython",
    "digests",
    "files",
    "inspect_sentences",
    "lines",
    "random_model",
    "sentences",
    "text",
    "with_ends",
]


def __getattr__(name: str) -> object:
    if name == "cpython":
        return import_module("bench_language_modeling.cpython")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bench_language_modeling.{_HOMES[name]}"), name)


def text(corpus: Any, data: Path) -> Text:
    """Return a corpus whose lines are read on request; `corpus` has the same form as for `lines`."""
    from bench_language_modeling import corpus as corpora

    return corpora.text(_parsed(corpus), data)


def lines(corpus: Any, split: Split, data: Path) -> list[str]:
    """Return the paragraphs or sentences of a split without headings, with words separated by single spaces.

    `corpus` is the value of `corpus:` in a suite: a name, a mapping, or the Settings parsed from them.
    """
    return text(corpus, data).paragraphs(split)


def digests(corpus: Any, data: Path) -> Mapping[str, str]:
    """Return the digest of each file of `corpus`, for a Config's `reads`."""
    from bench_language_modeling import corpus as corpora

    return corpora.reads(_parsed(corpus), data)


def files(corpus: Any, data: Path) -> list[Path]:
    """Return the files of `corpus`; an empty list for generated corpora and `cpython-docs`."""
    from bench_language_modeling import corpus as corpora
    from bench_language_modeling.inspecting import has_files

    parsed = _parsed(corpus)
    return [*corpora.files(parsed, data).values()] if has_files(parsed) else []


def _parsed(corpus: Any) -> Corpus:
    from pydantic import TypeAdapter

    parsed: Corpus = TypeAdapter(Corpus).validate_python(corpus)
    return parsed
