"""pluggy hooks: the parts that a plugin provides, and what it adds to runs and reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pluggy import HookimplMarker, HookspecMarker

from bench_core.config import (
    DecoderConfig,
    ExecutorConfig,
    MetricConfig,
    ModelConfig,
    ObserverConfig,
    ProbeConfig,
    TaskConfig,
)
from bench_core.data import Outcome
from bench_core.stage_kinds import StageKind

API = 2  #: version of the interfaces; a plugin may give the first and last that it works with: `supports`

hookspec = HookspecMarker("bench")  #: marks a hook that a plugin defines; without arguments, one for Configs
hookimpl = HookimplMarker("bench")  #: marks functions of a plugin that answer a hook, such as `bench_models`


@hookspec
def bench_models() -> list[type[ModelConfig]]:
    """Return the model families that this plugin provides."""


@hookspec
def bench_decoders() -> list[type[DecoderConfig]]:
    """Return the decoders that this plugin provides."""


@hookspec
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the tasks that this plugin provides."""


@hookspec
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics that this plugin provides."""


@hookspec
def bench_probes() -> list[type[ProbeConfig]]:
    """Return the probes that this plugin provides."""


@hookspec
def bench_executors() -> list[type[ExecutorConfig]]:
    """Return the executors that this plugin provides."""


@hookspec
def bench_observers() -> list[type[ObserverConfig]]:
    """Return the observers that this plugin provides, which hear of runs while they are under way."""


@hookspec
def bench_stage_kinds(known: Sequence[str]) -> Sequence[StageKind]:
    """Return kinds of stages; `known` has the names of those of the core, which are taken."""


@hookspec(firstresult=True)
def bench_report(run: Any, folder: Path) -> str:
    """Write the report of a `Run` into a folder, unless it is up to date; return its text for the terminal."""


@hookspec(firstresult=True)
def bench_run_html(run: Any) -> str:
    """Return the tables of a `Run` as HTML for a notebook, without scripts, and without anything beside it."""


@hookspec(firstresult=True)
def bench_power(run: Any, seeds: int, differences: Mapping[str, float]) -> Sequence[Mapping[str, Any]]:
    """Return how many seeds the comparisons of a finished `Run` would need to find differences, by metric.

    `seeds` are those that are planned. A row for each comparison, by the names of its columns.
    """


@hookspec(firstresult=True)
def bench_claim_proved(term: Any, bounds: Mapping[str, tuple[float, float]]) -> bool | None:
    """Return whether a claim is true, or false, of all scores within the bounds of its metrics; None if it varies.

    `term` is the parsed expression of the claim, a `bench_core.suites.expressions.Term`.
    """


@hookspec(firstresult=True)
def bench_decided(run: Any) -> bool:
    """Return whether the claims of a `Run` are decided, at the level of its look, so that no seeds need be added."""


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


@hookspec
def bench_restricted(task: TaskConfig) -> str:
    """Return why the data of a task forbid showing their texts in reports, such as a licence; empty if unknown."""


@hookspec
def bench_run_written(run: Any, store: Any) -> None:
    """Add files to the folder of a `Run` that was just written, from its `Store`."""


@hookspec
def bench_runs_merged(runs: Sequence[Any], merged: Any) -> None:
    """Merge the files that `bench_run_written` added to the folders of `runs` into that of the `merged` run."""


@hookspec
def bench_run_verified(run: Any, store: Any) -> Sequence[Any]:
    """Return `Remark`s where files that `bench_run_written` added contradict a `Store`; None if that is not here."""


@hookspec
def bench_report_verified(folder: Path, run: Any) -> Sequence[Any]:
    """Return `Remark`s where files of a report contradict each other, or its `Run`; None if that is not here."""


@hookspec
def bench_run_imported(run: Any) -> None:
    """Raise StoreError if a file that `bench_run_written` added to an imported `Run` is damaged."""
