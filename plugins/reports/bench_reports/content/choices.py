"""Selection of the best combination of a grid, or of the best decoder, by a metric on held-out data."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, isfinite, isnan
from typing import Any, Literal, TypeAlias

from bench_core.runs.results import CellResult, Run, Score
from bench_core.suites.axes import Axis
from bench_core.suites.cells import join
from bench_core.suites.grids import ModelGrid, gathered, origins, spelled, word
from bench_core.suites.schema import Skip
from bench_reports.content.sorting import applicable, by_key, name_on, names_on, number_of, ordered, seed_of
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Choice
from bench_reports.language.table_names import grids_of
from bench_reports.statistics.intervals import summary

Place: TypeAlias = tuple[str, str, str, str]  # task, hardware, model, and decoder (empty in choices among models)
ChoiceAxis: TypeAlias = Literal["model", "decoder"]


@dataclass(frozen=True)
class ChosenCombination:
    """The result of a choice among the combinations of one grid, for one task and hardware.

    A choice among decoders also applies to a single model only.
    """

    choice: Choice
    grid: ModelGrid
    task: str
    hardware: str
    model: str  # the decoder's model, or the name of the grid
    candidates: Sequence[str]  # without skipped combinations
    name: str | None = None  # the best combination
    reason: str = ""  # why `name` is None
    seeds: int = 0  # number of seeds averaged in each mean

    @property
    def representative(self) -> str:
        """The combination whose cells are shown: the best, or the first if none was selected."""
        return self.name or self.candidates[0]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the best combination; empty if none was selected."""
        return self.grid.combinations[self.name] if self.name else {}

    @property
    def what(self) -> str:
        """The kind of candidate: `combination` or `decoder`."""
        return "combination" if self.choice.axis == "model" else "decoder"

    @property
    def verdict(self) -> str:
        """The selected settings, the number of candidates and the criterion, for a footnote."""
        by = f"{self.choice.by} on {self.choice.split}{f' by {self.choice.decoder}' if self.choice.decoder else ''}"
        if self.name is None:
            return f"no selection by {by}: {self.reason}"
        settings = spelled(self.settings) or self.name
        among = f"the best of {len(self.candidates):,} {self.what}{'s' if len(self.candidates) > 1 else ''}"
        return f"{settings}, {among} by {by}, mean over {self.seeds} seed{'s' if self.seeds > 1 else ''}"

    @property
    def range(self) -> str:
        """All candidate settings, such as `Grid: hidden 256, 512; tied true, false`."""
        values = {name: ", ".join(map(word, values)) for name, values in self.grid.settings.items()}
        if self.choice.axis == "decoder":
            return f"Decoders: {values[self.grid.name]}"
        return f"Grid: {'; '.join(f'{name} {options}' for name, options in values.items()) or 'none'}"

    def place(self, name: str) -> Place:
        """Return the place of the cells that belong to the combination called `name`."""
        alone = self.choice.axis == "model"
        return (self.task, self.hardware, name, "") if alone else (self.task, self.hardware, self.model, name)

    def record(self) -> dict[str, Any]:
        """Return the choice as JSON data."""
        place = {"axis": self.choice.axis, "task": self.task, "hardware": self.hardware, "grid": self.grid.name}
        names = {"model": self.name} if self.choice.axis == "model" else {"model": self.model, "decoder": self.name}
        result = {"settings": self.settings, "reason": self.reason}
        return {
            "id": self.choice.id, **place, **names, **result, "combinations": len(self.candidates),
            "seeds": self.seeds,
        }  # fmt: skip


def choices(run: Run) -> list[ChosenCombination]:
    """Return the results of all choices, in suite order of choices, grids, tasks, hardware and models."""
    return [chosen for choice in language(run).choose for chosen in _select(run, choice)]


def label(run: Run, chosen: ChosenCombination) -> str:
    """Return the name of the grid or model of a choice, with its task and hardware if the run has several."""
    task = chosen.task if len(names_on(run, "task")) > 1 else ""
    hardware = chosen.hardware if len(names_on(run, "hardware")) > 1 else ""
    return join(chosen.model, task, hardware)


def choice_note(run: Run, chosen: ChosenCombination) -> str:
    """Return the result of a choice and its candidates as sentences."""
    return f"{label(run, chosen)}: {chosen.verdict}. {chosen.range}."


def place_of(cell: Mapping[str, Any], axis: ChoiceAxis) -> Place:
    """Return the place of a cell in choices among models, or among decoders."""
    task, hardware, model, decoder = (str(cell.get(name) or "") for name in ("task", "hardware", "model", "decoder"))
    return task, hardware, model, decoder if axis == "decoder" else ""


def resolve_choices(made: Sequence[ChosenCombination], ids: Collection[str]) -> list[ChosenCombination]:
    """Return the choices with these ids; choices among decoders only for the selected models.

    Selected models are renamed to their grids. Without a selected model no decoder is selected.
    """
    ours = [chosen for chosen in made if chosen.choice.id in ids]
    models = [chosen for chosen in ours if chosen.choice.axis == "model"]
    best = {chosen.place(chosen.representative): chosen for chosen in models}
    varied, resolved = origins({chosen.grid.name: chosen.grid for chosen in models}), [*models]
    for chosen in ours:
        model = best.get((chosen.task, chosen.hardware, chosen.model, ""))
        if chosen.choice.axis == "model" or (model is None and chosen.model in varied):
            continue
        if model:
            chosen = replace(chosen, model=model.grid.name)
            chosen = chosen if model.name else replace(chosen, name=None, reason=model.reason)
        resolved.append(chosen)
    return resolved


def collapse(run: Run, made: Sequence[ChosenCombination]) -> Run:
    """Return a run in which each grid of a choice is replaced by its selected model or decoder.

    If none was selected, the cells are `not run`, with the reason.
    """
    axes: tuple[ChoiceAxis, ...] = ("model", "decoder")
    for axis in axes:
        run = _collapse_axis(run, axis, [chosen for chosen in made if chosen.choice.axis == axis])
    return run


def _collapse_axis(run: Run, axis: ChoiceAxis, made: Sequence[ChosenCombination]) -> Run:
    grids = {chosen.grid.name: chosen.grid for chosen in made}
    combinations, best = origins(grids), {chosen.place(chosen.representative): chosen for chosen in made}
    cells = []
    for cell in run.cells:
        chosen = best.get(place_of(cell.cell, axis))
        if name_on(cell, axis) not in combinations:
            cells.append(cell)
        elif chosen:
            axes = {**cell.cell, axis: chosen.grid.name}
            missing = replace(cell, cell=axes, status="not run", reason=chosen.reason, numbers={}, artifacts={})
            cells.append(replace(cell, cell=axes) if chosen.name else missing)
    declared = run.suite.models if axis == "model" else run.suite.decoders
    parts = {name: declared.get(name, {}) for name in gathered(names_on(run, axis), grids)}
    skip = [*run.suite.skip, *_renamed_skips(run.suite.skip, made)]
    return replace(run, cells=cells, suite=run.suite.model_copy(update={f"{axis}s": parts, "skip": skip}))


def _renamed_skips(skips: Sequence[Skip], made: Sequence[ChosenCombination]) -> Iterator[Skip]:
    """Yield the skips of selected combinations, applied to the grids that they replace."""
    for skip, chosen in product(skips, made):
        task, hardware, model, decoder = chosen.place(chosen.name or "")
        names: dict[Axis, str] = {"task": task, "hardware": hardware, "model": model, "decoder": decoder}
        restricted = {axis: name for axis, name in names.items() if name and getattr(skip, axis)}
        if chosen.choice.axis in restricted and all(name in getattr(skip, axis) for axis, name in restricted.items()):
            names[chosen.choice.axis] = chosen.grid.name
            yield skip.model_copy(update={axis: (name,) for axis, name in names.items() if name})


def _select(run: Run, choice: Choice) -> Iterator[ChosenCombination]:
    cells = by_key(
        (place_of(cell.cell, choice.axis), cell) for cell in applicable(run, ordered(run), choice.by)
        if name_on(cell, "split") == choice.split and choice.decoder in (None, name_on(cell, "decoder"))
    )  # fmt: skip
    for grid in grids_of(choice, run.grids).values():
        models = names_on(run, "model") if choice.axis == "decoder" else [grid.name]
        for place in product(names_on(run, "task"), names_on(run, "hardware"), models):
            chosen = ChosenCombination(choice, grid, *place, candidates=())
            candidates = {name: cells[key] for name in grid.combinations if (key := chosen.place(name)) in cells}
            if candidates:
                yield _best(replace(chosen, candidates=list(candidates)), candidates)


def _best(chosen: ChosenCombination, candidates: Mapping[str, Sequence[CellResult]]) -> ChosenCombination:
    """Return a choice with its best candidate (the first on ties), or with the reason why there is none."""
    choice, among = chosen.choice, f"{chosen.what}s of {chosen.grid.name}"
    numbers = {
        name: {seed_of(cell): number for cell in reversed(cells) if (number := number_of(cell, choice.by))}
        for name, cells in candidates.items()
    }
    lacking = [
        (name, cell) for name, cells in candidates.items() for cell in cells if seed_of(cell) not in numbers[name]
    ]
    if lacking:
        first, cell = lacking[0]
        why = cell.numbers.get(choice.by, Score()).reason or cell.reason or cell.status
        count = len({name for name, _ in lacking})
        text = f"{count:,} of {len(candidates):,} {among} have no {choice.by} on {choice.split}"
        return replace(chosen, reason=f"{text} ({first}: {why})")
    several = [number for by_seed in numbers.values() for number in by_seed.values()]
    if len({(number.kind, number.signature) for number in several}) > 1:
        return replace(chosen, reason=f"the {choice.by} numbers of {among} differ in kind or signature")
    better = several[0].better
    if not better:
        return replace(chosen, reason=f"{choice.by} does not define whether higher or lower is better")
    means = {
        name: summary([number.value or 0.0 for number in by_seed.values()]).mean for name, by_seed in numbers.items()
    }
    worth = {name: better * mean for name, mean in means.items()}
    best = max(worth, key=lambda name: -inf if isnan(worth[name]) else worth[name])
    if not isfinite(worth[best]):
        return replace(chosen, reason=f"no {chosen.what} of {chosen.grid.name} has a finite {choice.by}")
    return replace(chosen, name=best, seeds=len(numbers[best]))
