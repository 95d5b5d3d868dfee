"""Selects the best combination of a grid, or the best decoder, by a metric on held-out data."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, isfinite, isnan
from typing import Any, Literal, TypeAlias

from bench_core.runs.results import CellResult, Number, Run
from bench_core.suites.axes import Axis
from bench_core.suites.cells import join
from bench_core.suites.grids import ModelGrid, gathered, origins, spelled, word
from bench_core.suites.schema import Skip
from bench_reports.content.sorting import applicable, by_key, name_on, names_on, number_of, ordered, seed_of
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Choice
from bench_reports.language.table_names import grids_of
from bench_reports.statistics.intervals import summary

Place: TypeAlias = tuple[str, str, str, str]  # task, hardware, model, and decoder if the choice is among those
ChoiceAxis: TypeAlias = Literal["model", "decoder"]


@dataclass(frozen=True)
class Chosen:
    """What became of a choice among the combinations of one grid, for one task and hardware.

    If it is among decoders, also for one model.
    """

    choice: Choice
    grid: ModelGrid
    task: str
    hardware: str
    model: str  # for which a decoder is chosen, or the name of the grid
    candidates: Sequence[str]  # the combinations that were not skipped
    name: str | None = None  # of the best one
    reason: str = ""  # why there is none
    seeds: int = 0  # behind each mean

    @property
    def shown(self) -> str:
        """Return the combination whose cells are shown: the best, or in place of one that there is not, the first."""
        return self.name or self.candidates[0]

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the settings of the best combination; none where there is none."""
        return self.grid.combinations[self.name] if self.name else {}

    @property
    def what(self) -> str:
        """Return what it is made among, such as `combination`."""
        return "combination" if self.choice.axis == "model" else "decoder"

    @property
    def verdict(self) -> str:
        """Return what was chosen, among what and by what, for a footnote."""
        by = f"{self.choice.by} on {self.choice.split}{f' by {self.choice.decoder}' if self.choice.decoder else ''}"
        if self.name is None:
            return f"nothing is chosen by {by}: {self.reason}"
        found = spelled(self.settings) or self.name
        among = f"the best of {len(self.candidates):,} {self.what}{'s' if len(self.candidates) > 1 else ''}"
        return f"{found}, {among} by {by}, mean over {self.seeds} seed{'s' if self.seeds > 1 else ''}"

    @property
    def range(self) -> str:
        """Return all that it is made among, such as `Grid: hidden 256, 512; tied true, false`."""
        values = {name: ", ".join(map(word, values)) for name, values in self.grid.settings.items()}
        if self.choice.axis == "decoder":
            return f"Decoders: {values[self.grid.name]}"
        return f"Grid: {'; '.join(f'{name} {found}' for name, found in values.items()) or 'none'}"

    def place(self, name: str) -> Place:
        """Return where the cells stand that one of its combinations has under this name."""
        alone = self.choice.axis == "model"
        return (self.task, self.hardware, name, "") if alone else (self.task, self.hardware, self.model, name)

    def record(self) -> dict[str, Any]:
        """Return what was chosen as plain data."""
        place = {"axis": self.choice.axis, "task": self.task, "hardware": self.hardware, "grid": self.grid.name}
        found = {"model": self.name} if self.choice.axis == "model" else {"model": self.model, "decoder": self.name}
        known = {"settings": self.settings, "reason": self.reason}
        return {
            "id": self.choice.id, **place, **found, **known, "combinations": len(self.candidates), "seeds": self.seeds
        }  # fmt: skip


def choices(run: Run) -> list[Chosen]:
    """Return what became of every choice, in the order of the suite: choices, grids, tasks, hardware, models."""
    return [one for choice in language(run).choose for one in _made(run, choice)]


def label(run: Run, chosen: Chosen) -> str:
    """Return the name of a grid, or of a model with its own decoder; task and hardware where the run has several."""
    task = chosen.task if len(names_on(run, "task")) > 1 else ""
    hardware = chosen.hardware if len(names_on(run, "hardware")) > 1 else ""
    return join(chosen.model, task, hardware)


def choice_note(run: Run, chosen: Chosen) -> str:
    """Return what became of a choice and what it was made among, as a sentence or two."""
    return f"{label(run, chosen)}: {chosen.verdict}. {chosen.range}."


def place_of(cell: Mapping[str, Any], axis: ChoiceAxis) -> Place:
    """Return where a cell stands in choices among models, or among decoders."""
    task, hardware, model, decoder = (str(cell.get(one) or "") for one in ("task", "hardware", "model", "decoder"))
    return task, hardware, model, decoder if axis == "decoder" else ""


def together(made: Sequence[Chosen], ids: Collection[str]) -> list[Chosen]:
    """Return the choices with these ids; of those among decoders, only what they found for the chosen models.

    Chosen models go by the names of their grids. Where none was chosen, no decoder is.
    """
    ours = [one for one in made if one.choice.id in ids]
    models = [one for one in ours if one.choice.axis == "model"]
    best = {one.place(one.shown): one for one in models}
    varied, found = origins({one.grid.name: one.grid for one in models}), [*models]
    for one in ours:
        model = best.get((one.task, one.hardware, one.model, ""))
        if one.choice.axis == "model" or (model is None and one.model in varied):
            continue
        if model:
            one = replace(one, model=model.grid.name)
            one = one if model.name else replace(one, name=None, reason=model.reason)
        found.append(one)
    return found


def collapsed(run: Run, made: Sequence[Chosen]) -> Run:
    """Return a run in which each grid of a choice is one model or decoder: the combination that was chosen.

    Where none was, its cells are `not run`, with the reason.
    """
    axes: tuple[ChoiceAxis, ...] = ("model", "decoder")
    for axis in axes:
        run = _collapsed(run, axis, [one for one in made if one.choice.axis == axis])
    return run


def _collapsed(run: Run, axis: ChoiceAxis, made: Sequence[Chosen]) -> Run:
    grids = {one.grid.name: one.grid for one in made}
    known, best = origins(grids), {one.place(one.shown): one for one in made}
    cells = []
    for one in run.cells:
        chosen = best.get(place_of(one.cell, axis))
        if name_on(one, axis) not in known:
            cells.append(one)
        elif chosen:
            renamed = {**one.cell, axis: chosen.grid.name}
            unmade = replace(one, cell=renamed, status="not run", reason=chosen.reason, numbers={}, artifacts={})
            cells.append(replace(one, cell=renamed) if chosen.name else unmade)
    known_parts = run.suite.models if axis == "model" else run.suite.decoders
    parts = {name: known_parts.get(name, {}) for name in gathered(names_on(run, axis), grids)}
    skip = [*run.suite.skip, *_renamed(run.suite.skip, made)]
    return replace(run, cells=cells, suite=run.suite.model_copy(update={f"{axis}s": parts, "skip": skip}))


def _renamed(skips: Sequence[Skip], made: Sequence[Chosen]) -> Iterator[Skip]:
    """Let what is skipped for a chosen combination be skipped, where it was chosen, for what stands for it."""
    for skip, one in product(skips, made):
        task, hardware, model, decoder = one.place(one.name or "")
        names: dict[Axis, str] = {"task": task, "hardware": hardware, "model": model, "decoder": decoder}
        given = {axis: name for axis, name in names.items() if name and getattr(skip, axis)}
        if one.choice.axis in given and all(name in getattr(skip, axis) for axis, name in given.items()):
            names[one.choice.axis] = one.grid.name
            yield skip.model_copy(update={axis: (name,) for axis, name in names.items() if name})


def _made(run: Run, choice: Choice) -> Iterator[Chosen]:
    cells = by_key(
        (place_of(one.cell, choice.axis), one) for one in applicable(run, ordered(run), choice.by)
        if name_on(one, "split") == choice.split and choice.decoder in (None, name_on(one, "decoder"))
    )  # fmt: skip
    for grid in grids_of(choice, run.grids).values():
        models = names_on(run, "model") if choice.axis == "decoder" else [grid.name]
        for place in product(names_on(run, "task"), names_on(run, "hardware"), models):
            chosen = Chosen(choice, grid, *place, candidates=())
            found = {one: cells[key] for one in grid.combinations if (key := chosen.place(one)) in cells}
            if found:
                yield _best(replace(chosen, candidates=list(found)), found)


def _best(chosen: Chosen, found: Mapping[str, Sequence[CellResult]]) -> Chosen:
    """Return a choice with the best of its candidates, the first of those that are alike, or why there is none."""
    choice, among = chosen.choice, f"{chosen.what}s of {chosen.grid.name}"
    numbers = {
        one: {seed_of(cell): number for cell in reversed(cells) if (number := number_of(cell, choice.by))}
        for one, cells in found.items()
    }
    lacking = [(one, cell) for one, cells in found.items() for cell in cells if seed_of(cell) not in numbers[one]]
    if lacking:
        one, cell = lacking[0]
        why = cell.numbers.get(choice.by, Number()).reason or cell.reason or cell.status
        count = len({one for one, _ in lacking})
        text = f"{count:,} of {len(found):,} {among} lack their {choice.by} on {choice.split}"
        return replace(chosen, reason=f"{text} ({one}: {why})")
    several = [number for by_seed in numbers.values() for number in by_seed.values()]
    if len({(number.kind, number.signature) for number in several}) > 1:
        return replace(chosen, reason=f"the {choice.by} of {among} differ in kind or signature")
    better = several[0].better
    if not better:
        return replace(chosen, reason=f"{choice.by} does not define whether higher or lower is better")
    means = {one: summary([number.value or 0.0 for number in own.values()]).mean for one, own in numbers.items()}
    worth = {one: better * mean for one, mean in means.items()}
    best = max(worth, key=lambda one: -inf if isnan(worth[one]) else worth[one])
    if not isfinite(worth[best]):
        return replace(chosen, reason=f"no {chosen.what} of {chosen.grid.name} has a finite {choice.by}")
    return replace(chosen, name=best, seeds=len(numbers[best]))
