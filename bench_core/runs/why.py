"""Explains why stages are not in the store: what changed since the last run of the suite."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from bench_core.errors import StoreError, SuiteError
from bench_core.planning import keys
from bench_core.planning.path_settings import MARKED
from bench_core.planning.plan import Plan, lists_tasks, needed
from bench_core.planning.stages import Stage
from bench_core.runs.results import Run, read_run
from bench_core.runs.selecting import cell_name, chosen
from bench_core.storage.store import Store
from bench_core.suites.cells import Cell
from bench_core.suites.suite import Suite

#: A kind of ingredient -> how it reads where one changed, was added, or is gone.
TEXTS: Mapping[str, Sequence[str]] = {
    "code": ("code of {} changed", "code of {} takes part now", "code of {} no longer takes part"),
    "data": ("data {}: other content", "data {}: read now", "data {}: no longer read"),
    "scheme": ("the scheme of {} changed",),
}
LONGEST = 60  # characters of a value


@dataclass(frozen=True)
class Difference:
    """An ingredient that differs between two artifacts; None where one of them has none."""

    what: str  # setting, data, code, library or scheme; new or unknown where there is nothing to compare with
    name: str
    before: Any
    now: Any
    text: str  # such as `training.lr: 0.1 -> 0.2`


Differences: TypeAlias = Mapping[str, Difference]  #: by their texts
NEW = Difference("new", "", None, None, "new: that run recorded nothing of it")
UNKNOWN = Difference(
    "unknown", "", None, None, "what the recorded one was made of is not known: it, or an input of it, is not stored"
)


@dataclass(frozen=True)
class Answer:
    """Why a stage is not stored, or has another key than the recorded one."""

    stage: str
    of: str
    key: str
    recorded: str | None  # its key in the run
    cause: bool  # whether something differs that no input explains
    differences: Sequence[Difference]  # all that does
    follows: Sequence[str]  # kinds of the inputs that explain the rest


@dataclass(frozen=True)
class Found:
    """What there is to say of some cells."""

    verdict: str
    cells: int
    stages: int
    answers: Sequence[Answer]
    notes: Sequence[str]


def of_suite(suite: Suite, planned: Plan, store: Store, runs: Path, which: str) -> Found:
    """Return which stages of some cells are not stored, and what changed in them since the last run of the suite."""
    cells = chosen(planned.cells, lambda one: one.axes, which)
    making = needed(planned, suite, store.is_stored, cells if which else None)
    tasks = planned.tasks.values() if lists_tasks(planned, suite) and not which else ()
    own = {*tasks, *(key for one in cells for key in planned.of_cell.get(one, {}).values())}
    stages = len(own.union(one.key for one in making))
    behind = f"{stages} stages behind {len(cells)} cells"
    run = last_run(runs, suite.label) if making else None
    compared = [one for one in making if one.key in own]  # not joint trainings, whose keys no run records
    answers = explain(planned, store, compared, recorded_keys(planned, run, cells)) if run else []
    notes = [*_fates(store, making), *dict.fromkeys(planned.missing.values())]
    if making:
        none = f"no run of {suite.label} in {runs}/: nothing to compare with"
        notes.insert(0, f"compared with {run.folder}" if run else none)
    verdict = f"{len(making)} of {behind} are not stored" if making else f"all that is needed of {behind} is stored"
    return Found(f"{suite.label}: {verdict}.", len(cells), stages, answers, notes)


def of_run(run: Run, planned: Plan, store: Store, which: str) -> Found:
    """Return which stages of some cells have other keys today than a run recorded, and what changed in them."""
    names = [cell_name(one.cell) for one in chosen(run.cells, lambda one: one.cell, which)]
    today = {cell_name(one.axes): one for one in planned.of_cell}
    recorded = recorded_keys(planned, run, [today[name] for name in names if name in today])
    changed = [one for key, one in planned.stages.items() if recorded.get(key, key) != key]
    behind = f"{len(recorded)} stages behind {len(names)} cells"
    verdict = f"{run.folder}: {len(changed) or 'none'} of {behind} have other keys today."
    notes = [f"{name} cannot be planned today" for name in names if name not in today]
    notes += dict.fromkeys(planned.missing.values())
    return Found(verdict, len(names), len(recorded), explain(planned, store, changed, recorded), notes)


def last_run(runs: Path, label: str) -> Run | None:
    """Return the newest run with this label that can be read, or None."""
    folders = [(re.findall(r"\d{8}-\d{6}", one.name), one.lstat().st_mtime, one) for one in runs.glob("*")]
    for *_, folder in sorted(folders, reverse=True):
        with suppress(StoreError, SuiteError):
            if folder.name.startswith(label.replace("/", "-")) and (run := read_run(folder)).info["label"] == label:
                return run
    return None


def recorded_keys(planned: Plan, run: Run, cells: Iterable[Cell]) -> dict[str, str]:
    """Return the keys that a run recorded for the stages of cells, by those that these have today."""
    results = {cell_name(one.cell): one.artifacts for one in run.cells}
    found: dict[str, str] = {}
    for cell in cells:
        then = results.get(cell_name(cell.axes), {})
        found |= {key: then[name] for name, key in planned.of_cell.get(cell, {}).items() if name in then}
    return found


def _fates(store: Store, stages: Iterable[Stage]) -> Iterator[str]:
    """Yield what a store tells of stages that came to nothing, a line for each of its folders that does."""
    for folder in ("failures", "set-aside", "unfinished"):
        names = (f"{folder}/{one.kind}-{one.key[:12]}*" for one in stages)
        if paths := [path for name in names for path in store.root.glob(name)]:
            yield f"{folder} of these stages: {len(paths)}, such as {paths[0]}"


def explain(planned: Plan, store: Store, stages: Iterable[Stage], recorded: Mapping[str, str]) -> list[Answer]:
    """Return what changed in stages, which come after those that they read; `recorded` is by today's keys."""

    @cache
    def compare(key: str, then: str) -> Differences:
        return {one.text: one for one in _differences(planned.stages[key], then, store, compare)}

    answers, known = [], dict[str, Differences]()
    for one in stages:
        then = recorded.get(one.key)
        known[one.key] = compare(one.key, then) if then else {NEW.text: NEW}
        changed = {key: kind for kind, key in one.inputs.values() if known.get(key)}
        own = [item for text, item in known[one.key].items() if not any(text in known[key] for key in changed)]
        follows = [*dict.fromkeys(changed.values())]
        answers.append(Answer(one.kind, one.label, one.key, then, bool(own), own, follows))
    return answers


def _differences(
    stage: Stage, then: str, store: Store, compare: Callable[[str, str], Differences]
) -> Iterator[Difference]:
    """Yield what differs in a stage from the artifact of another key, after what does in all that was read."""
    if then == stage.key:
        return
    try:
        made = store.kept(stage.kind, then).manifest["ingredients"]
        before, inputs = ingredients(made, then), {role: str(key) for role, (_, key) in made["inputs"].items()}
    except (StoreError, LookupError, TypeError, ValueError, AttributeError, RecursionError):  # gone, or damaged
        yield UNKNOWN
        return
    for role, (_, key) in stage.inputs.items():
        yield from compare(key, inputs[role]).values() if role in inputs else ()
    now = ingredients(stage.ingredients, stage.key)
    for what, name in {**now, **before}:
        if before.get((what, name)) != now.get((what, name)):
            yield difference(what, name, before.get((what, name)), now.get((what, name)))


def ingredients(made: Mapping[str, Any], key: str) -> dict[tuple[str, str], str]:
    """Return all that an artifact was made of, but for its inputs, as JSON by kind and name."""
    settings = {**made["settings"]}
    data = {**settings.pop("data", {}), **settings.pop("files", {}), "initial weights": settings.pop("initial", None)}
    data = {name: digest for name, digest in data.items() if digest}
    sections = {"setting": settings, "data": data, "code": made["code"], "library": made["libraries"]}
    found = {(what, name): value for what, section in sections.items() for name, value in _flat(section)}
    return {("scheme", "keys"): json.dumps(keys.key_of(made) == key), **found}


def _flat(settings: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every value in settings as JSON, after its name, such as `training.lr`."""
    for name, value in settings.items():
        listed = isinstance(value, list) and any(isinstance(one, Mapping) for one in value)
        inside = dict(enumerate(value)) if listed else value
        if isinstance(inside, Mapping) and inside:
            yield from _flat(inside, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value, ensure_ascii=False)


def difference(what: str, name: str, before: str | None, now: str | None) -> Difference:
    """Return what differs between two values, each as JSON, or None where there is none."""
    one, other = ("(none)" if side is None else side.strip('"') for side in (before, now))
    text = f"{name}{'' if what == 'library' else ':'} {one[:LONGEST]} -> {other[:LONGEST]}"
    if what in TEXTS:
        text = TEXTS[what][(now is not None) - (before is not None)].format(name)
    elif MARKED.fullmatch(one) and MARKED.fullmatch(other):
        text = f"{name}: other content"  # of the file that a setting names
    return Difference(what, name, before and json.loads(before), now and json.loads(now), text)
