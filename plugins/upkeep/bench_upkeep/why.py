"""Explains why stages are not in the store: what changed since the last run of the suite."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from bench_core.errors import StoreError, SuiteError
from bench_core.planning import cache_keys as keys
from bench_core.planning.code_digests import code_digests
from bench_core.planning.path_settings import MARKED
from bench_core.planning.plan import Plan, lists_tasks, needed
from bench_core.planning.stages import Stage
from bench_core.runs.results import Run, read_run
from bench_core.runs.selecting import cell_name, chosen
from bench_core.storage.code_listings import read_listing
from bench_core.storage.store import Store
from bench_core.suites.cells import Cell
from bench_core.suites.suite import Suite

#: A kind of ingredient -> how it reads where one changed, was added, or is gone.
TEXTS: Mapping[str, Sequence[str]] = {
    "code": ("code of {} changed", "code of {} is used now", "code of {} is no longer used"),
    "data": ("data {}: other content", "data {}: read now", "data {}: no longer read"),
    "scheme": ("the scheme of {} changed",),
}
LONGEST = 60  # characters of a value


@dataclass(frozen=True)
class Difference:
    """An ingredient that differs between two artifacts; None if one of them lacks it."""

    what: str  # setting, data, code, library, scheme or input; new or unknown where there is nothing to compare with
    name: str
    before: Any
    now: Any
    text: str  # such as `training.lr: 0.1 -> 0.2`


Differences: TypeAlias = Mapping[str, Difference]  #: by their texts
NEW = Difference("new", "", None, None, "new: that run did not record it")
_LOST = "ingredients of the recorded artifact unknown: it, or one of its inputs, is not stored"
UNKNOWN = Difference("unknown", "", None, None, _LOST)


@dataclass(frozen=True)
class Answer:
    """Why a stage is not stored, or its key differs from the recorded one."""

    stage: str
    of: str
    key: str
    recorded: str | None  # its key in the run
    cause: bool  # whether something differs that no input explains
    differences: Sequence[Difference]  # all that does
    follows: Sequence[str]  # kinds of the inputs that explain the rest


@dataclass(frozen=True)
class Found:
    """The explanation for some cells."""

    verdict: str
    cells: int
    stages: int
    answers: Sequence[Answer]
    notes: Sequence[str]


def of_suite(suite: Suite, planned: Plan, store: Store, runs: Path, which: str) -> Found:
    """Return which stages of some cells are not stored, and what changed since the last run of the suite."""
    cells = chosen(planned.cells, lambda one: one.axes, which)
    making = needed(planned, suite, store.is_stored, cells if which else None)
    tasks = chain.from_iterable(planned.tasks.values()) if lists_tasks(planned, suite) and not which else ()
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
    verdict = f"{len(making)} of {behind} are not stored" if making else f"everything needed of {behind} is stored"
    return Found(f"{suite.label}: {verdict}.", len(cells), stages, answers, notes)


def of_run(run: Run, planned: Plan, store: Store, which: str) -> Found:
    """Return which stages of some cells have changed keys since a run, and what changed."""
    names = [cell_name(one.cell) for one in chosen(run.cells, lambda one: one.cell, which)]
    today = {cell_name(one.axes): one for one in planned.of_cell}
    recorded = recorded_keys(planned, run, [today[name] for name in names if name in today])
    changed = [one for key, one in planned.stages.items() if recorded.get(key, key) != key]
    behind = f"{len(recorded)} stages behind {len(names)} cells"
    verdict = f"{run.folder}: {len(changed) or 'none'} of {behind} have changed keys."
    notes = [f"{name} cannot be planned now" for name in names if name not in today]
    notes += dict.fromkeys(planned.missing.values())
    return Found(verdict, len(names), len(recorded), explain(planned, store, changed, recorded), notes)


def last_run(runs: Path, label: str) -> Run | None:
    """Return the newest readable run with this label, or None."""
    folders = [(re.findall(r"\d{8}-\d{6}", one.name), one.lstat().st_mtime, one) for one in runs.glob("*")]
    for *_, folder in sorted(folders, reverse=True):
        with suppress(StoreError, SuiteError):
            if folder.name.startswith(label.replace("/", "-")) and (run := read_run(folder)).info["label"] == label:
                return run
    return None


def recorded_keys(planned: Plan, run: Run, cells: Iterable[Cell]) -> dict[str, str]:
    """Return the keys that a run recorded for the stages of cells, by their current keys."""
    results = {cell_name(one.cell): one.artifacts for one in run.cells}
    found: dict[str, str] = {}
    for cell in cells:
        then = results.get(cell_name(cell.axes), {})
        found |= {key: then[name] for name, key in planned.of_cell.get(cell, {}).items() if name in then}
    return found


def _fates(store: Store, stages: Iterable[Stage]) -> Iterator[str]:
    """Yield notes on leftovers of failed stages in the store."""
    for folder in ("failures", "set-aside", "unfinished"):
        names = (f"{folder}/{one.kind}-{one.key[:12]}*" for one in stages)
        if paths := [path for name in names for path in store.root.glob(name)]:
            yield f"{folder} of these stages: {len(paths)}, such as {paths[0]}"


def explain(planned: Plan, store: Store, stages: Iterable[Stage], recorded: Mapping[str, str]) -> list[Answer]:
    """Return what changed in stages in topological order; `recorded` is by current keys."""

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
    """Yield the differences of a stage from another artifact, those of its inputs first."""
    if then == stage.key:
        for name in store.changed_inputs(store.kept_as(stage.kind, then), then):
            yield Difference("input", name, None, None, f"{name}: changed since it was read")
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
        old, new = before.get((what, name)), now.get((what, name))
        if what == "code" and old and new and old != new:
            yield from _code_differences(name, read_listing(store, json.loads(old)), stage.roots[name])
        elif old != new:
            yield difference(what, name, old, new)


def _code_differences(name: str, before: Mapping[str, str], roots: tuple[str, ...]) -> Iterator[Difference]:
    """Yield the definitions that differ; what they take part in, if those of before are unknown."""
    now = code_digests().listing(roots)
    names = [one for one in {**now, **before} if before.get(one) != now.get(one)] if before else []
    for one in names or [name]:
        old, new = (before.get(one), now.get(one)) if names else ("before", "now")
        yield difference("code", one, old and json.dumps(old), new and json.dumps(new))


def ingredients(made: Mapping[str, Any], key: str) -> dict[tuple[str, str], str]:
    """Return the ingredients of an artifact except inputs, as JSON, by kind and name."""
    settings = {**made["settings"]}
    data = {**settings.pop("data", {}), **settings.pop("files", {}), "initial weights": settings.pop("initial", None)}
    data = {name: digest for name, digest in data.items() if digest}
    sections = {"setting": settings, "data": data, "code": made["code"], "library": made["libraries"]}
    found = {(what, name): value for what, section in sections.items() for name, value in _flat(section)}
    return {("scheme", "keys"): json.dumps(keys.key_of(made) == key), **found}


def _flat(settings: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every setting as JSON with its dotted name, such as `training.lr`."""
    for name, value in settings.items():
        listed = isinstance(value, list) and any(isinstance(one, Mapping) for one in value)
        inside = dict(enumerate(value)) if listed else value
        if isinstance(inside, Mapping) and inside:
            yield from _flat(inside, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value, ensure_ascii=False)


def _cut(value: str) -> str:
    """Return a value with its digests shortened; one that is still long is cut, which can be seen."""
    value = re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}", r"\1…", value)
    return value if len(value) <= LONGEST else f"{value[:LONGEST]} …"


def difference(what: str, name: str, before: str | None, now: str | None) -> Difference:
    """Return the difference of two JSON values, either of which may be None."""
    one, other = ("(none)" if side is None else side.strip('"') for side in (before, now))
    text = f"{name}{'' if what == 'library' else ':'} {_cut(one)} -> {_cut(other)}"
    if what in TEXTS:
        text = TEXTS[what][(now is not None) - (before is not None)].format(name)
    elif MARKED.fullmatch(one) and MARKED.fullmatch(other):
        text = f"{name}: other content"  # of the file that a setting names
    return Difference(what, name, before and json.loads(before), now and json.loads(now), text)
