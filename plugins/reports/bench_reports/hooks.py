"""Hooks for plugins that draw kinds of figures or provide citations of corpora."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from bench_core import Prediction, hookspec


@hookspec(firstresult=True)
def bench_figure(kind: str) -> Any:
    """Return the `FigureKind` that implements a kind of figure; None for other kinds."""


@hookspec
def bench_samples(
    figures: Sequence[Any],
    predictions: Callable[[], Sequence[Prediction]],
    vocabulary: Sequence[str],
    hidden: Callable[[Sequence[Prediction]], Collection[int]],
) -> Mapping[int, Mapping[str, Any]] | None:
    """Return JSON data about single outputs for figures of this plugin, by example id; None without such data.

    The run stores the data with its samples. `predictions` reads all outputs of a decoding; `hidden` returns the ids
    of examples that reports must not show.
    """


@hookspec
def bench_corpus_citations(corpus: str) -> Sequence[str]:
    """Return the keys of a corpus in the citations.bib of this package."""
