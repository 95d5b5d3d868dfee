"""Which combination of a grid is best on data kept for that, from results alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, isnan
from typing import Any, TypeAlias

from bench_core.combinations import ModelGrid, gathered, origins, spelled, word
from bench_core.names import join
from bench_core.reporting.order import name_on, names_on, ordered, seed_of
from bench_core.reporting.stats import summary
from bench_core.results import CellResult, Number, Run
from bench_core.schema import Choice, Skip

Place: TypeAlias = tuple[str, str, str]  # task, hardware, and model


@dataclass(frozen=True)
class Chosen:
    """What became of a choice among the combinations of one grid, for one task and hardware."""

    choice: Choice
    grid: ModelGrid
    task: str
    hardware: str
    candidates: Sequence[str]  # the combinations that were not skipped
    name: str | None = None  # of the best one
    reason: str = ""  # why there is none
    seeds: int = 0  # behind each mean

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the settings of the best combination; none where there is none."""
        return self.grid.combinations[self.name] if self.name else {}

    @property
    def verdict(self) -> str:
        """Return what was chosen, among what and by what, for a footnote."""
        by = f"{self.choice.by} on {self.choice.split}{f' by {self.choice.decoder}' if self.choice.decoder else ''}"
        if self.name is None:
            return f"nothing is chosen by {by}: {self.reason}"
        found = spelled(self.settings) or self.name
        among = f"the best of {len(self.candidates):,} combination{'s' if len(self.candidates) > 1 else ''}"
        return f"{found}, {among} by {by}, mean over {self.seeds} seed{'s' if self.seeds > 1 else ''}"

    @property
    def range(self) -> str:
        """Return all values of the grid, such as `hidden 256, 512; tied true, false`."""
        return "; ".join(f"{name} {', '.join(map(word, values))}" for name, values in self.grid.settings.items())

    def record(self) -> dict[str, Any]:
        """Return what was chosen as plain data."""
        place = {"task": self.task, "hardware": self.hardware, "grid": self.grid.name}
        found = {"model": self.name, "settings": self.settings, "reason": self.reason}
        return {"id": self.choice.id, **place, **found, "combinations": len(self.candidates), "seeds": self.seeds}


def choices(run: Run) -> list[Chosen]:
    """Return what became of every choice, in the order of the suite: choices, grids, tasks, hardware."""
    return [one for choice in run.suite.choose for one in _made(run, choice)]


def label(run: Run, chosen: Chosen) -> str:
    """Return a grid's name, with task and hardware where the run has several."""
    task = chosen.task if len(names_on(run, "task")) > 1 else ""
    hardware = chosen.hardware if len(names_on(run, "hardware")) > 1 else ""
    return join(chosen.grid.name, task, hardware)


def collapsed(run: Run, made: Sequence[Chosen]) -> Run:
    """Return a run in which each grid of a choice is one model: the combination that was chosen.

    Where none was, its cells are `not run`, with the reason.
    """
    grids = {one.grid.name: one.grid for one in made}
    known, found = origins(grids), {(one.task, one.hardware, one.grid.name): one for one in made}
    cells = []
    for one in run.cells:
        task, hardware, model = _place(one)
        chosen = found.get((task, hardware, known.get(model, "")))
        if model not in known:
            cells.append(one)
        elif chosen and model == (chosen.name or chosen.candidates[0]):
            renamed = {**one.cell, "model": chosen.grid.name}
            unmade = replace(one, cell=renamed, status="not run", reason=chosen.reason, numbers={}, artifacts={})
            cells.append(replace(one, cell=renamed) if chosen.name else unmade)
    models = {name: run.suite.models.get(name, {}) for name in gathered(names_on(run, "model"), grids)}
    skip = [_renamed(one, made) for one in run.suite.skip]
    return replace(run, cells=cells, suite=run.suite.model_copy(update={"models": models, "skip": skip}))


def _renamed(skip: Skip, made: Sequence[Chosen]) -> Skip:
    """Let what is skipped for a chosen combination be skipped for the model that stands for it."""
    names = [one.grid.name for one in made if one.name in skip.model]
    return skip.model_copy(update={"model": (*skip.model, *names)})


@dataclass
class _Candidate:
    """The numbers that speak for one combination."""

    numbers: dict[int, Number] = field(default_factory=dict)  # by seed, where there is one
    reasons: dict[int, str] = field(default_factory=dict)  # by seed, of cells without one

    @property
    def lack(self) -> str | None:
        """Return why a seed has no number, or None if all have one."""
        return next((reason for seed, reason in self.reasons.items() if seed not in self.numbers), None)

    @property
    def mean(self) -> float:
        return summary([number.value for number in self.numbers.values() if number.value is not None]).mean


def _made(run: Run, choice: Choice) -> Iterator[Chosen]:
    candidates = _candidates(run, choice)
    for name in dict.fromkeys(choice.model):
        grid = run.grids.get(name) or ModelGrid(name, {}, {name: {}})
        for task in names_on(run, "task"):
            for hardware in names_on(run, "hardware"):
                keys = {one: (task, hardware, one) for one in grid.combinations}
                found = {one: candidates[key] for one, key in keys.items() if key in candidates}
                if found:
                    yield _best(Chosen(choice, grid, task, hardware, list(found)), found)


def _candidates(run: Run, choice: Choice) -> dict[Place, _Candidate]:
    """Return the numbers of all models by a choice's metric; none of those that were left out on purpose."""
    skips = [skip for skip in run.suite.skip if choice.by in skip.metric]
    found: dict[Place, _Candidate] = defaultdict(_Candidate)
    for one in ordered(run):
        decoded = choice.decoder in (None, name_on(one, "decoder"))
        if name_on(one, "split") != choice.split or not decoded:
            continue
        if any(skip.covers(**one.cell, metric=choice.by) for skip in skips):
            continue
        number, candidate = one.numbers.get(choice.by), found[_place(one)]
        if number is not None and number.value is not None:
            candidate.numbers.setdefault(seed_of(one), number)
        else:
            candidate.reasons[seed_of(one)] = (number.reason if number else "") or one.reason or one.status
    return dict(found)


def _best(chosen: Chosen, found: Mapping[str, _Candidate]) -> Chosen:
    """Return a choice with the best of its candidates, the first of those that are alike, or why there is none."""
    name, choice = chosen.grid.name, chosen.choice
    lacking = {one: lack for one, candidate in found.items() if (lack := candidate.lack) is not None}
    if lacking:
        one, lack = next(iter(lacking.items()))
        text = f"{len(lacking):,} of {len(found):,} combinations of {name} lack their {choice.by} on {choice.split}"
        return replace(chosen, reason=f"{text} ({one}: {lack})")
    numbers = [number for candidate in found.values() for number in candidate.numbers.values()]
    if len({(number.kind, number.signature) for number in numbers}) > 1:
        return replace(chosen, reason=f"the {choice.by} of combinations of {name} differ in kind or signature")
    better = numbers[0].better
    if not better:
        return replace(chosen, reason=f"{choice.by} says not whether higher or lower is better")
    worth = {one: better * candidate.mean for one, candidate in found.items()}
    best = max(worth, key=lambda one: -inf if isnan(worth[one]) else worth[one])
    if not isfinite(worth[best]):
        return replace(chosen, reason=f"no combination of {name} has a finite {choice.by}")
    return replace(chosen, name=best, seeds=len(found[best].numbers))


def _place(one: CellResult) -> Place:
    return name_on(one, "task"), name_on(one, "hardware"), name_on(one, "model")
