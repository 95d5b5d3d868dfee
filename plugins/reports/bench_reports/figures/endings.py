"""Examples whose outputs end in some cells and not in others, for the samples of reports with survival curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from bench_core.errors import StoreError
from bench_core.runs.quoting import withheld
from bench_core.runs.results import Axes, CellResult, Run
from bench_core.storage.outcomes import read_outcomes
from bench_reports.figures.kept_files import KeptFile

if TYPE_CHECKING:
    from bench_core import Outcome
    from bench_core.storage.store import Store

MOST_EXAMPLES = 5  # of a split


@dataclass(frozen=True)
class Endings:
    """What a cell of the first seed made of the examples that not all cells end, as samples."""

    cell: Axes
    samples: Sequence[Mapping[str, Any]] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        return "endings"

    @property
    def stage(self) -> str:
        return "decode"


def _stored(run: Run, store: Store) -> Iterator[Endings]:
    """Yield the samples of cells that share examples; none of tasks whose prompts may not be shown."""
    groups: dict[tuple[object, ...], list[CellResult]] = defaultdict(list)
    seeds = run.suite.seeds
    first = 0 if isinstance(seeds, int) else seeds[0]
    for one in run.cells:
        task = str(one.cell.get("task") or "")
        if (
            one.cell.get("seed") == first
            and one.status == "done"
            and one.artifacts.get("decode")
            and not withheld(run, [task])
        ):
            groups[task, one.cell.get("split")].append(one)
    for cells in groups.values():
        yield from _of_group(cells, store)


def _of_group(cells: Sequence[CellResult], store: Store) -> Iterator[Endings]:
    found: list[tuple[CellResult, Sequence[Outcome], Mapping[int, bool]]] = []
    for one in cells:
        try:
            outcomes = read_outcomes(store.get("decode", one.artifacts["decode"]).file("outcomes.jsonl.gz"))
        except StoreError:  # names a path, which no report may
            yield Endings(one.cell, reason="what the store kept of its outputs is damaged")
        else:
            found.append((one, outcomes, {each.id: each.hypotheses[0].finished for each in outcomes}))
    chosen = {*islice(told_apart([ended for _, _, ended in found]), MOST_EXAMPLES)}
    for one, outcomes, ended in found:
        if known := sorted(chosen & ended.keys()):
            samples = {each.id: _sample(each) for each in outcomes if each.id in chosen}
            yield Endings(one.cell, [samples[number] for number in known])


def told_apart(cells: Sequence[Mapping[int, bool]]) -> Iterator[int]:
    """Yield the examples, by id, that end in some cells and not in others."""
    for number in sorted({number for ended in cells for number in ended}):
        if len({ended[number] for ended in cells if number in ended}) > 1:
            yield number


def _sample(outcome: Outcome) -> Mapping[str, Any]:
    first = outcome.hypotheses[0]
    return {
        "id": outcome.id,
        "prompt": outcome.prompt,
        "text": outcome.texts[0],
        "reference": outcome.references[0] if outcome.references else "",
        "finished": first.finished,
        "tokens": first.length,
    }


ENDINGS = KeptFile("endings.jsonl", Endings, lambda figure: figure.kind == "survival", _stored)
