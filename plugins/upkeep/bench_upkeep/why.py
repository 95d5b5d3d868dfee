"""Explains why stages are not in the store: lists the changes since the last run of the suite."""

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

#: Kind of ingredient -> messages for a changed, an added and a removed ingredient.
TEXTS: Mapping[str, Sequence[str]] = {
    "code": ("code of {} changed", "code of {} is used now", "code of {} is no longer used"),
    "data": ("data {}: other content", "data {}: read now", "data {}: no longer read"),
    "scheme": ("the scheme of {} changed",),
}
MAX_VALUE_CHARACTERS = 60


@dataclass(frozen=True)
class IngredientDifference:
    """An ingredient that differs between two artifacts; its value is None in an artifact without it."""

    what: str  # setting, data, code, library, scheme or input; else new or unknown
    name: str
    before: Any
    now: Any
    text: str  # such as `training.lr: 0.1 -> 0.2`


Differences: TypeAlias = Mapping[str, IngredientDifference]  #: text -> difference
NEW = IngredientDifference("new", "", None, None, "new: not recorded by that run")
_LOST = "unknown ingredients: the recorded artifact or one of its inputs is not stored"
UNKNOWN = IngredientDifference("unknown", "", None, None, _LOST)


@dataclass(frozen=True)
class Answer:
    """The reasons why a stage is not stored, or why its key differs from the recorded key."""

    stage: str
    of: str
    key: str
    recorded: str | None  # key in the run
    cause: bool  # whether there are differences that no input explains
    differences: Sequence[IngredientDifference]  # differences that no input explains
    follows: Sequence[str]  # kinds of inputs that explain the other differences


@dataclass(frozen=True)
class Explanation:
    """The explanation for some cells."""

    verdict: str
    cells: int
    stages: int
    answers: Sequence[Answer]
    notes: Sequence[str]


def of_suite(suite: Suite, planned: Plan, store: Store, runs: Path, which: str) -> Explanation:
    """Return the stages of cells that are not stored, and what changed since the last run of the suite."""
    cells = chosen(planned.cells, lambda cell: cell.axes, which)
    making = needed(planned, suite, store.is_stored, cells if which else None)
    tasks = chain.from_iterable(planned.tasks.values()) if lists_tasks(planned, suite) and not which else ()
    keys_of_cells = {*tasks, *(key for cell in cells for key in planned.of_cell.get(cell, {}).values())}
    stages = len(keys_of_cells.union(stage.key for stage in making))
    behind = f"{stages} stages behind {len(cells)} cells"
    run = last_run(runs, suite.label) if making else None
    compared = [stage for stage in making if stage.key in keys_of_cells]  # runs do not record joint training
    answers = explain(planned, store, compared, recorded_keys(planned, run, cells)) if run else []
    notes = [*_leftovers(store, making), *dict.fromkeys(planned.missing.values())]
    if making:
        none = f"no run of {suite.label} in {runs}/: nothing to compare with"
        notes.insert(0, f"compared with {run.folder}" if run else none)
    verdict = f"{len(making)} of {behind} are not stored" if making else f"everything needed of {behind} is stored"
    return Explanation(f"{suite.label}: {verdict}.", len(cells), stages, answers, notes)


def of_run(run: Run, planned: Plan, store: Store, which: str) -> Explanation:
    """Return the stages of cells whose keys have changed since a run, and what changed."""
    names = [cell_name(result.cell) for result in chosen(run.cells, lambda result: result.cell, which)]
    today = {cell_name(cell.axes): cell for cell in planned.of_cell}
    recorded = recorded_keys(planned, run, [today[name] for name in names if name in today])
    changed = [stage for key, stage in planned.stages.items() if recorded.get(key, key) != key]
    behind = f"{len(recorded)} stages behind {len(names)} cells"
    verdict = f"{run.folder}: {len(changed) or 'none'} of {behind} have changed keys."
    notes = [f"{name} can no longer be planned" for name in names if name not in today]
    notes += dict.fromkeys(planned.missing.values())
    return Explanation(verdict, len(names), len(recorded), explain(planned, store, changed, recorded), notes)


def last_run(runs: Path, label: str) -> Run | None:
    """Return the newest readable run with this label, or None."""
    folders = [(re.findall(r"\d{8}-\d{6}", path.name), path.lstat().st_mtime, path) for path in runs.glob("*")]
    for *_, folder in sorted(folders, reverse=True):
        with suppress(StoreError, SuiteError):
            if folder.name.startswith(label.replace("/", "-")) and (run := read_run(folder)).info["label"] == label:
                return run
    return None


def recorded_keys(planned: Plan, run: Run, cells: Iterable[Cell]) -> dict[str, str]:
    """Return the recorded keys of the stages of cells, by their current keys."""
    results = {cell_name(result.cell): result.artifacts for result in run.cells}
    recorded: dict[str, str] = {}
    for cell in cells:
        then = results.get(cell_name(cell.axes), {})
        recorded |= {key: then[name] for name, key in planned.of_cell.get(cell, {}).items() if name in then}
    return recorded


def _leftovers(store: Store, stages: Iterable[Stage]) -> Iterator[str]:
    """Yield notes on leftovers of failed stages in the store."""
    for folder in ("failures", "set-aside", "unfinished"):
        names = (f"{folder}/{stage.kind}-{stage.key[:12]}*" for stage in stages)
        if paths := [path for name in names for path in store.root.glob(name)]:
            yield f"{folder} of these stages: {len(paths)}, such as {paths[0]}"


def explain(planned: Plan, store: Store, stages: Iterable[Stage], recorded: Mapping[str, str]) -> list[Answer]:
    """Return the changes in stages, in topological order; `recorded` is indexed by current keys."""

    @cache
    def compare(key: str, then: str) -> Differences:
        return {difference.text: difference for difference in _differences(planned.stages[key], then, store, compare)}

    answers, known = [], dict[str, Differences]()
    for stage in stages:
        then = recorded.get(stage.key)
        known[stage.key] = compare(stage.key, then) if then else {NEW.text: NEW}
        changed = {key: kind for kind, key in stage.inputs.values() if known.get(key)}
        unexplained = [
            item for text, item in known[stage.key].items() if not any(text in known[key] for key in changed)
        ]
        follows = [*dict.fromkeys(changed.values())]
        answers.append(Answer(stage.kind, stage.label, stage.key, then, bool(unexplained), unexplained, follows))
    return answers


def _differences(
    stage: Stage, then: str, store: Store, compare: Callable[[str, str], Differences]
) -> Iterator[IngredientDifference]:
    """Yield the differences between a stage and another artifact, input stages first."""
    if then == stage.key:
        for name in store.changed_inputs(store.stored_kind(stage.kind, then), then):
            yield IngredientDifference("input", name, None, None, f"{name}: changed since it was read")
        return
    try:
        recorded = store.find(stage.kind, then).manifest["ingredients"]
        before, inputs = (
            ingredients(recorded, then),
            {role: str(key) for role, (_, key) in recorded["inputs"].items()},
        )
    except (StoreError, LookupError, TypeError, ValueError, AttributeError, RecursionError):  # missing or damaged
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


def _code_differences(name: str, before: Mapping[str, str], roots: tuple[str, ...]) -> Iterator[IngredientDifference]:
    """Yield the definitions that differ; if the earlier listing is unknown, yield only the name of the code."""
    now = code_digests().listing(roots)
    names = (
        [definition for definition in {**now, **before} if before.get(definition) != now.get(definition)]
        if before
        else []
    )
    for item in names or [name]:
        old, new = (before.get(item), now.get(item)) if names else ("before", "now")
        yield difference("code", item, old and json.dumps(old), new and json.dumps(new))


def ingredients(record: Mapping[str, Any], key: str) -> dict[tuple[str, str], str]:
    """Return the ingredients of an artifact except its inputs, as JSON, by kind and name."""
    settings = {**record["settings"]}
    data = {**settings.pop("data", {}), **settings.pop("files", {}), "initial weights": settings.pop("initial", None)}
    data = {name: digest for name, digest in data.items() if digest}
    sections = {"setting": settings, "data": data, "code": record["code"], "library": record["libraries"]}
    values = {(what, name): value for what, section in sections.items() for name, value in _flat(section)}
    return {("scheme", "keys"): json.dumps(keys.key_of(record) == key), **values}


def _flat(settings: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every setting as JSON with its dotted name, such as `training.lr`."""
    for name, value in settings.items():
        has_mappings = isinstance(value, list) and any(isinstance(item, Mapping) for item in value)
        inside = dict(enumerate(value)) if has_mappings else value
        if isinstance(inside, Mapping) and inside:
            yield from _flat(inside, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value, ensure_ascii=False)


def _shorten(value: str) -> str:
    """Return a value with shortened digests, truncated with an ellipsis if it is still too long."""
    value = re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}", r"\1…", value)
    return value if len(value) <= MAX_VALUE_CHARACTERS else f"{value[:MAX_VALUE_CHARACTERS]} …"


def difference(what: str, name: str, before: str | None, now: str | None) -> IngredientDifference:
    """Return the difference between two JSON values, each of which may be None."""
    old, new = ("(none)" if side is None else side.strip('"') for side in (before, now))
    text = f"{name}{'' if what == 'library' else ':'} {_shorten(old)} -> {_shorten(new)}"
    if what in TEXTS:
        text = TEXTS[what][(now is not None) - (before is not None)].format(name)
    elif MARKED.fullmatch(old) and MARKED.fullmatch(new):
        text = f"{name}: other content"  # the setting names a file
    return IngredientDifference(what, name, before and json.loads(before), now and json.loads(now), text)
