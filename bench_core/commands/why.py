"""`bench why TARGET [CELL]`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bench_core.commands import options
from bench_core.terminal import say, to_json

if TYPE_CHECKING:
    from bench_core.planning.plan import Plan
    from bench_core.runs.results import Run
    from bench_core.storage.recipes import Difference
    from bench_core.storage.store import Store
    from bench_core.storage.why import Answer
    from bench_core.suites.suite import Suite

T = TypeVar("T")

REPORTING = ("tables", "figures", "claims", "choose")  # sections of a suite that no key depends on


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("cell", nargs=-1)
@options.changes
@options.data
@options.store
@options.as_json
def command(
    target: Path,
    cell: tuple[str, ...],
    profile: str | None,
    settings: tuple[str, ...],
    seeds: int | None,
    data: Path | None,
    store: Path,
    as_json: bool,
) -> None:
    """Say why stages of TARGET, a suite, are not stored, or why those of TARGET, a run, have other keys today.

    Told are the ingredients that differ from the nearest stored artifact, or from the one that the run recorded. CELL
    chooses cells by a name as reports have it, such as `words/lstm/greedy/test, seed 0`, or by parts of one.
    """
    from bench_core.errors import SuiteError
    from bench_core.files import data_folder
    from bench_core.planning.plan import plan
    from bench_core.runs.results import read_run
    from bench_core.storage.store import Store

    kept, which = Store(store), " ".join(cell)
    if target.is_dir():
        if profile is not None or settings or seeds is not None:
            raise SuiteError(f"{target} is a run, which has its own suite. Leave out --profile, --set and --seeds.")
        found = of_run(read_run(target), plan(suite_of(target), data_folder(data)), kept, which)
    else:
        suite = _loaded(target, profile, settings, seeds)
        found = of_suite(suite, plan(suite, data_folder(data)), kept, which)
    say(to_json(plain(found), 1) if as_json else text(found))


def _loaded(path: Path, profile: str | None, settings: tuple[str, ...], seeds: int | None) -> Suite:
    from bench_core.suites.cells import cells_of
    from bench_core.suites.check import check_fit
    from bench_core.suites.load import load

    suite = load(path, profile, settings, seeds)
    check_fit(suite, cells_of(suite))
    return suite


def suite_of(run: Path) -> Suite:
    """Return the suite of a run as today's code reads it, less what it says of reports."""
    from bench_core.suites import yaml_source as located
    from bench_core.suites.load import resolve

    source = located.read(run / "suite.yaml")
    for section in REPORTING:
        source.data.pop(section, None)
    return resolve(source, run)


@dataclass
class Found:
    """What there is to say of some cells."""

    cells: int
    stages: set[str] = field(default_factory=set)  # behind the cells
    verdict: str = ""
    answers: Sequence[Answer] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def behind(self) -> str:
        """Return what was looked at, in words."""
        behind = f" behind {self.cells} {'cell' if self.cells == 1 else 'cells'}" if self.cells else ""
        return f"{len(self.stages)} stages{behind}"


def of_suite(suite: Suite, planned: Plan, store: Store, which: str) -> Found:
    """Return why a run of a suite would have something to make for some of its cells."""
    from bench_core.planning.plan import lists_tasks, needed
    from bench_core.storage.partial import is_stored
    from bench_core.storage.why import explain

    cells = chosen(planned.cells, lambda one: one.axes, which)
    whole = not which and lists_tasks(planned, suite)
    tasks = [*planned.tasks.values()] if whole else []
    own = {*tasks, *(key for one in cells for key in planned.of_cell.get(one, {}).values())}
    read = {key for one in own for _, key in planned.stages[one].inputs.values()}  # such as a training of all seeds
    found = Found(len(cells), own | read)
    making = needed(planned, suite, lambda stage, told: is_stored(store, stage, told), cells if which else None)
    wanted = [stage.key for stage in making]
    idle = [key for key in found.stages.difference(wanted) if not store.has(planned.stages[key].kind, key)]
    stored = f"all that is needed of {found.behind} is stored" if idle else f"all {found.behind} are stored"
    found.verdict = f"{suite.label}: {f'{len(wanted)} of {found.behind} are not stored' if wanted else stored}."
    found.answers = explain(planned, store, dict.fromkeys(wanted))
    if idle:
        found.notes.append(f"not stored and not needed, since what was made of them is stored: {len(idle)}")
    found.notes += dict.fromkeys(planned.missing.values() if whole else filter(None, map(planned.lack, cells)))
    return found


def of_run(run: Run, planned: Plan, store: Store, which: str) -> Found:
    """Return why some cells of a run would have other keys if it were run today."""
    from bench_core.storage.why import explain

    cells = chosen(run.cells, lambda one: one.cell, which)
    found = Found(len(cells))
    recorded: dict[str, str] = {}  # by today's keys
    today = {name_of(one.axes): one for one in planned.cells}
    for one in cells:
        name = name_of(one.cell)
        cell = today.get(name)
        if cell is None or cell not in planned.of_cell:
            found.notes.append((cell and planned.lack(cell)) or f"{name} is no cell of its suite today")
            continue
        for stage, key in planned.of_cell[cell].items():
            if stage in one.artifacts:
                recorded.setdefault(key, one.artifacts[stage])
            else:
                found.notes.append(f"nothing was recorded of {planned.stages[key].kind} {planned.stages[key].label}")
    found.stages = {*recorded}
    changed = {key: old for key, old in recorded.items() if key != old}
    kept = f"all {found.behind} have the keys that were recorded" if recorded else "no keys were recorded"
    found.verdict = f"{run.folder}: {f'{len(changed)} of {found.behind} have other keys today' if changed else kept}."
    found.answers = explain(planned, store, changed)
    if gone := sum(not store.has(planned.stages[key].kind, old) for key, old in recorded.items()):
        found.notes.append(f"recorded, but not in this store: {gone}")
    found.notes = [*dict.fromkeys(found.notes)]
    return found


def name_of(axes: Mapping[str, Any]) -> str:
    """Return what reports call a cell, such as `words/lstm/greedy/test, seed 0`."""
    from bench_core.runs.sorting import cell_name

    return cell_name(axes)


def chosen(cells: Sequence[T], axes: Callable[[T], Mapping[str, Any]], which: str) -> list[T]:
    """Return the cells with these words in their names, in order, or with `axis=name`; raise SuiteError if none."""
    from bench_core.errors import SuiteError
    from bench_core.registry import suggestion
    from bench_core.runs.selecting import pairs, select
    from bench_core.suites.schema import AXES

    if not which.strip():
        return [*cells]
    if all(axis in AXES and name is not None for axis, name in pairs(which)):
        return select(cells, axes, which)
    words = _words(which)
    named = [_words(name_of(axes(one))) for one in cells]
    found = [one for one, name in zip(cells, named, strict=True) if _within(words, name)]
    if found:
        return found
    known = list(dict.fromkeys(word for name in named for word in name))
    for word in words:
        if word not in known:
            raise SuiteError(f"no cell has {word!r} in its name. {suggestion(word, known)}")
    raise SuiteError(f"no cell is called {which!r}. {suggestion(which, [name_of(axes(one)) for one in cells])}")


def _words(name: str) -> list[str]:
    """Return the words of a name or of a part of one; the seed is a word of its own."""
    seed = re.search(r"(?:^|[,\s])\s*seed[\s=]*(\d+)\s*$", name)
    names = name[: seed.start()] if seed else name
    return [*(word.strip() for word in names.split("/") if word.strip()), *([f"seed {seed[1]}"] if seed else [])]


def _within(words: Sequence[str], name: Sequence[str]) -> bool:
    """Return whether a name has all of these words in their order."""
    rest = iter(name)
    return all(word in rest for word in words)


def text(found: Found) -> str:
    """Return what there is to say for a terminal: causes first, and once what several stages share."""
    from bench_core.commands.plan import STAGES
    from bench_core.terminal import visible

    groups: dict[tuple[int, bool, tuple[str, ...]], list[Answer]] = {}
    for one in found.answers:
        group = (STAGES.index(one.stage.kind), not one.cause, tuple(one.reasons))
        groups.setdefault(group, []).append(one)
    lines = [found.verdict]
    for group in sorted(groups, key=lambda group: group[:2]):
        first, *others = groups[group]
        more = f" (and {len(others)} more)" if others else ""
        lines += ["", f"{'cause: ' if first.cause else ''}{first.stage.kind} {first.stage.label}{more}"]
        lines += [f"  {reason}" for reason in first.reasons]
        lines += [f"  see {first.fate}"] if first.fate else []
    lines += ["", *found.notes] if found.notes else []
    return "\n".join(f"  {visible(line)}" if line.startswith("  ") else visible(line) for line in lines)


def plain(found: Found) -> Any:
    """Return what there is to say as JSON data."""
    return {
        "verdict": found.verdict,
        "cells": found.cells,
        "stages": len(found.stages),
        "answers": [_plain(answer) for answer in found.answers],
        "notes": found.notes,
    }


def _plain(answer: Answer) -> dict[str, Any]:
    upstream = [{"in": kind, **_told(one)} for kind, several in answer.there.items() for one in several]
    return {
        "stage": answer.stage.kind,
        "of": answer.stage.label,
        "key": answer.stage.key,
        "recorded": answer.recorded,
        "compared with": answer.nearest,
        "cause": answer.cause,
        "differences": [*({"in": answer.stage.kind, **_told(one)} for one in answer.here), *upstream],
        "follows": [*answer.follows],
        "reasons": answer.reasons,
        "see": str(answer.fate) if answer.fate else None,
    }


def _told(one: Difference) -> dict[str, Any]:
    before, now = (None if value is None else json.loads(value) for value in (one.before, one.now))
    return {"what": one.what, "name": one.name, "before": before, "now": now, "text": one.text}
