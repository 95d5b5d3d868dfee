"""The records by which a run can be verified without its code: `stages.jsonl.gz` and `parts.json`.

`stages.jsonl.gz` has every planned stage: its key, all ingredients of the key, and a digest of its result.
`parts.json` has the planned settings of each part of the suite, including defaults, by name.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from bench_core.errors import StoreError, SuiteError
from bench_core.registry import configured, meaning
from input_digests import Dependencies, check
from plain_files import read_shared, write_shared

STAGES, PARTS = "stages.jsonl.gz", "parts.json"
SHARED = frozenset({"ingredients", "observed"})  # fields of stages that are often equal
HARDWARE = ("device", "precision", "threads")
BY_NAME = {"measure": ("metrics", "metric"), "probe": ("probes", "probe")}  # kind of stage -> section, setting

#: The place of a setting in a suite: the section, names in it, and the setting.
Place: TypeAlias = tuple[str, ...]


def recorded_part(kind: str, ingredients: Mapping[str, Any]) -> Any:
    """Return the Config of a part of a stored stage; the recorded code decides between parts of the same name."""
    try:
        return configured(kind, ingredients["settings"][kind])
    except SuiteError:
        from bench_core.planning.stage_code import recorded_config  # imported late, because reports do not plan

        return recorded_config(kind, ingredients)


def recorded_meaning(folder: Path) -> AbstractContextManager[None]:
    """Resolve names that several installed parts share to the parts of a run, using the run's recorded code."""
    from bench_core.planning.stage_code import installed_roots  # imported late, because reports do not plan

    roots = set[str]()
    for stage in read_stages(folder).values():
        roots.update(*installed_roots(stage.ingredients["code"], stage.settings).values())
    return meaning(roots)


def current(name: str) -> str:
    """Return the current name of a kind, setting or input of stages that was renamed after version 0.2."""
    return {"together": "vmapped", "outcomes": "predictions"}.get(name, name)


@dataclass(frozen=True)
class RecordedStage:
    """A stage in the records of a run."""

    key: str
    ingredients: Mapping[str, Any]  # everything that the key hashes
    scheme: int  # version of the key
    result: str = ""  # digest of the result; empty if the stage did not finish
    computed: str = ""  # digest of environment and cost; empty for measures and probes
    observed: Dependencies = field(default_factory=dict)  # inputs that are not covered by the key

    @property
    def kind(self) -> str:
        """Return the kind of the stage."""
        return current(str(self.ingredients.get("kind")))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the settings of the stage."""
        return {current(name): value for name, value in _mapping(self.ingredients.get("settings")).items()}

    @property
    def inputs(self) -> dict[str, tuple[str, str]]:
        """Return the kind and key of each input, by role."""
        inputs = _mapping(self.ingredients.get("inputs"))
        return {current(role): (current(str(kind)), str(key)) for role, (kind, key) in inputs.items()}


def write_stages(path: Path, stages: Iterable[RecordedStage]) -> None:
    """Write stages; equal ingredients are written once."""
    write_shared(path, map(_as_line, stages), SHARED)


def _as_line(stage: RecordedStage) -> dict[str, Any]:
    required = {"key": stage.key, "ingredients": stage.ingredients, "scheme": stage.scheme}
    optional = {"result": stage.result, "computed": stage.computed, "observed": stage.observed}
    return required | {name: value for name, value in optional.items() if value}


def read_stages(folder: Path) -> dict[str, RecordedStage]:
    """Return the recorded stages of a run, by key (empty in old versions); raise StoreError if they are damaged."""
    path, stages = folder / STAGES, dict[str, RecordedStage]()
    if not path.exists():
        return {}
    try:
        for data in read_shared(path, SHARED):
            stage = RecordedStage(**data)
            check(stage.observed)
            if stage.key in stages or not isinstance(stage.ingredients, dict) or not isinstance(stage.key, str):
                raise ValueError(f"stage {stage.key!r} is a duplicate, or has no ingredients")
            stage.inputs  # noqa: B018 - raises unless they are pairs
            stages[stage.key] = stage
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: the recorded stages cannot be read ({error}). Run the suite again.") from None
    return stages


def result_digest(*results: Any) -> str:
    """Return the digest of a stage's result: the first half of a SHA-256."""
    text = json.dumps(results, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_mark)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _mark(value: Any) -> str:
    """Return the digest of an array, for JSON."""
    return hashlib.sha256(value.tobytes()).hexdigest()


def files_digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest of the files of an artifact, including files that an import left out."""
    files = {**manifest.get("left_out", {}), **manifest["files"]}
    return result_digest({name: about["sha256"] for name, about in files.items()})


def computed_digest(manifest: Mapping[str, Any]) -> str:
    """Return the digest of the environment and the cost of an artifact."""
    return result_digest(manifest.get("provenance"), manifest.get("cost"))


def read_parts(folder: Path) -> dict[str, Any]:
    """Return the recorded settings of parts, by name (empty in old versions); raise StoreError if damaged."""
    path = folder / PARTS
    if not path.exists():
        return {}
    try:
        parts = json.loads(path.read_bytes())
        if not isinstance(parts, dict):
            raise ValueError("it is not a mapping")
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: the settings of parts cannot be read ({error}). Run the suite again.") from None
    return parts


def settings_by_part(cell: Mapping[str, Any], stage: str, settings: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Yield every setting of a stage of a cell, with its place in the suite.

    For example, the place `("models", "lstm", "words", "training")` is `training:` of model `lstm` on task `words`.
    Settings of the stage itself have the places `("cell", AXIS)` and `("limits", NAME)`.
    """
    kind, _, name = stage.partition("/")
    for setting, value in settings.items():
        if kind == "prepare":
            if setting != "split":  # `split` is set if splits are prepared separately
                last = f"{setting}/{settings['split'] or 'train'}" if "split" in settings else setting
                yield ("tasks", str(cell["task"]), last), value
        elif setting in ("seed", "split"):
            yield ("cell", setting), value
        elif setting == "vmapped":
            yield ("seeds",), value
        elif setting in HARDWARE:
            yield ("hardware", str(cell["hardware"]), setting), value
        elif setting == "batch_size":
            yield ("limits", setting), value
        elif setting == "examples":
            yield ("limits", "scored" if kind == "score" else setting), value
        elif setting == "decoder" and value is not None:
            yield ("decoders", str(cell["decoder"]), setting), value
        elif kind in BY_NAME and setting in (BY_NAME[kind][1], "decoder"):
            yield (BY_NAME[kind][0], name, setting), value
        else:  # includes the likelihood of a score stage
            last = f"{setting}/{name}" if kind == "score" else setting
            yield ("models", str(cell["model"]), str(cell["task"]), last), value


def at(settings: Any, path: Place) -> Any:
    """Return the value at a path in nested mappings, or None."""
    for name in path:
        settings = _mapping(settings).get(name)
    return settings


def put(settings: dict[str, Any], path: Place, value: Any) -> None:
    """Set a value at a path in nested mappings, unless the path already has a value."""
    for name in path[:-1]:
        settings = settings.setdefault(name, {})
    settings.setdefault(path[-1], value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
