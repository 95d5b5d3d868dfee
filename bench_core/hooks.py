"""pluggy hooks: the parts that a plugin provides, and what it adds to runs and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pluggy import HookimplMarker, HookspecMarker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from bench_core.config import (
        DecoderConfig,
        ExecutorConfig,
        MetricConfig,
        ModelConfig,
        ProbeConfig,
        TaskConfig,
    )
    from bench_core.data import Outcome

API = 1  #: version of the interfaces; a plugin's `supports` gives the first and last that it works with

hookspec = HookspecMarker("bench")
hookimpl = HookimplMarker("bench")


@hookspec
def bench_models() -> list[type[ModelConfig]]:
    """Return the model families that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoders that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the probes that this plugin offers."""
    raise NotImplementedError


@hookspec
def bench_executors() -> list[type[ExecutorConfig]]:
    """Return the executors that this plugin offers."""
    raise NotImplementedError


@hookspec(firstresult=True)
def bench_report(run: Any, folder: Path) -> str:
    """Write the report of a `Run` into a folder, unless it is there; return what to show of it on a screen."""
    raise NotImplementedError


@hookspec(firstresult=True)
def bench_figure(kind: str) -> Any:
    """Return the `FigureKind` that makes and draws figures of a kind; None if it is not yours."""
    raise NotImplementedError


@hookspec
def bench_samples(
    figures: Sequence[Any],
    outcomes: Callable[[], Sequence[Outcome]],
    vocabulary: Sequence[str],
    hidden: Callable[[Sequence[Outcome]], Collection[int]],
) -> Mapping[int, Mapping[str, Any]] | None:
    """Return what your figures need to know of single outputs, as JSON data by the ids of examples; None if nothing.

    A run keeps it beside the samples of a decoding, of which `outcomes` reads all outputs; `hidden` returns the ids
    of those that no report may show.
    """
    raise NotImplementedError


@hookspec
def bench_corpus_citations(corpus: str) -> Sequence[str]:
    """Return the keys, in the citations.bib of your package, of what a corpus is to be cited by."""
    raise NotImplementedError


@hookspec
def bench_run_written(run: Any, store: Any) -> None:
    """Add files to the folder of a `Run` that has just been written, while its `Store` is at hand."""
    raise NotImplementedError


@hookspec
def bench_runs_merged(runs: Sequence[Any], folder: Path) -> None:
    """Add to the folder of a merged run what `bench_run_written` left in those of its `runs`."""
    raise NotImplementedError
