"""Hooks: the citations of corpora."""

from collections.abc import Sequence

from bench_core import hookimpl


@hookimpl(optionalhook=True)  # specified by bench-reports
def bench_corpus_citations(corpus: str) -> Sequence[str]:
    """Return the citation keys of a corpus."""
    from bench_text.corpora import catalogue

    entry = catalogue().get(corpus)
    return entry.cites if entry else ()
