"""Hooks for plugins that draw kinds of figures, or know how corpora are cited."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from bench_core import Outcome, hookspec


@hookspec(firstresult=True)
def bench_figure(kind: str) -> Any:
    """Return the `FigureKind` that implements a kind of figure; None if this plugin does not."""


@hookspec
def bench_samples(
    figures: Sequence[Any],
    outcomes: Callable[[], Sequence[Outcome]],
    vocabulary: Sequence[str],
    hidden: Callable[[Sequence[Outcome]], Collection[int]],
) -> Mapping[int, Mapping[str, Any]] | None:
    """Return the data that figures of this plugin need about single outputs, as JSON by example id; None if nothing.

    The run stores it beside its samples. `outcomes` reads all outputs of a decoding; `hidden` returns the ids of
    examples that no report may show.
    """


@hookspec
def bench_corpus_citations(corpus: str) -> Sequence[str]:
    """Return the citation keys of a corpus, in the citations.bib of this package."""
