"""Hooks: the citations of corpora, and which of them forbid showing their texts."""

from __future__ import annotations

from collections.abc import Sequence

from bench_core import TaskConfig, hookimpl


@hookimpl(optionalhook=True)  # of bench-reports
def bench_corpus_citations(corpus: str) -> Sequence[str]:
    """Return the keys of what a corpus is to be cited by."""
    from bench_text.corpora import catalogue

    entry = catalogue().get(corpus)
    return entry.cites if entry else ()


@hookimpl
def bench_restricted(task: TaskConfig) -> str:
    """Return why reports may not show texts of the corpus of a task, by its entry in the catalogue."""
    from bench_text.corpora import restriction

    return restriction(str(getattr(getattr(task, "corpus", None), "name", "")))
