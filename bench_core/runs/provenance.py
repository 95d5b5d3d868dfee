"""What a run records so that it can be verified without the code that made it: `stages.jsonl.gz` and `parts.json`.

`stages.jsonl.gz` has every planned stage: its key, all that the key is a hash of, and a digest of its result.
`parts.json` has the settings of each part of the suite by its name, defaults included, as they were planned.
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
SHARED = frozenset({"ingredients", "observed"})  # of a stage, what others may have in common with it
HARDWARE = ("device", "precision", "threads")
BY_NAME = {"measure": ("metrics", "metric"), "probe": ("probes", "probe")}  # sections whose names stages have

#: Of a setting: the section of a suite, names in it, and the setting.
Place: TypeAlias = tuple[str, ...]


def recorded_part(kind: str, ingredients: Mapping[str, Any]) -> Any:
    """Return the Config of a part of a stored stage; of parts that share its name, the one with the recorded code."""
    try:
        return configured(kind, ingredients["settings"][kind])
    except SuiteError:
        from bench_core.planning.stage_code import as_recorded  # not for reports, which plan nothing

        return as_recorded(kind, ingredients)


def recorded_meaning(folder: Path) -> AbstractContextManager[None]:
    """Have names that several installed parts share mean those that a run used, by the code that it recorded."""
    from bench_core.planning.stage_code import meant  # not for reports, which plan nothing

    roots = set[str]()
    for stage in read_stages(folder).values():
        roots |= {root for several in meant(stage.ingredients["code"], stage.settings).values() for root in several}
    return meaning(roots)


@dataclass(frozen=True)
class RecordedStage:
    """A stage as a run recorded it."""

    key: str
    ingredients: Mapping[str, Any]  # what the key is a hash of
    scheme: int  # of keys
    result: str = ""  # a digest of what it left; empty if it did not finish
    computed: str = ""  # a digest of where it was computed and what that cost; empty of measures and probes
    observed: Dependencies = field(default_factory=dict)  # its inputs that the key does not cover

    @property
    def kind(self) -> str:
        """Return the kind of the stage."""
        return str(self.ingredients.get("kind"))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return its settings."""
        return _mapping(self.ingredients.get("settings"))

    @property
    def inputs(self) -> dict[str, tuple[str, str]]:
        """Return kind and key of each input by its role."""
        return {role: (str(kind), str(key)) for role, (kind, key) in _mapping(self.ingredients.get("inputs")).items()}


def write_stages(path: Path, stages: Iterable[RecordedStage]) -> None:
    """Write stages; what several of them have in common is written once."""
    write_shared(path, map(_as_line, stages), SHARED)


def _as_line(stage: RecordedStage) -> dict[str, Any]:
    about = {"key": stage.key, "ingredients": stage.ingredients, "scheme": stage.scheme}
    more = {"result": stage.result, "computed": stage.computed, "observed": stage.observed}
    return about | {name: value for name, value in more.items() if value}


def read_stages(folder: Path) -> dict[str, RecordedStage]:
    """Return the stages that a run folder records, by key; none if it is from before they were recorded.

    Raises StoreError if the file is damaged.
    """
    path, found = folder / STAGES, dict[str, RecordedStage]()
    if not path.exists():
        return {}
    try:
        for data in read_shared(path, SHARED):
            stage = RecordedStage(**data)
            check(stage.observed)
            if stage.key in found or not isinstance(stage.ingredients, dict) or not isinstance(stage.key, str):
                raise ValueError(f"stage {stage.key!r} is there twice, or has no ingredients")
            stage.inputs  # noqa: B018 - raises unless they are pairs
            found[stage.key] = stage
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: the recorded stages cannot be read ({error}). Run the suite again.") from None
    return found


def result_digest(*results: Any) -> str:
    """Return what stands for the result of a stage in a run: half of a sha256."""
    text = json.dumps(results, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_mark)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _mark(value: Any) -> str:
    """Return what stands for an array."""
    return hashlib.sha256(value.tobytes()).hexdigest()


def files_digest(manifest: Mapping[str, Any]) -> str:
    """Return what stands for the files of an artifact, whether all of them are here or were imported in part."""
    files = {**manifest.get("left_out", {}), **manifest["files"]}
    return result_digest({name: about["sha256"] for name, about in files.items()})


def computed_digest(manifest: Mapping[str, Any]) -> str:
    """Return what stands for where an artifact was computed, and what that cost."""
    return result_digest(manifest.get("provenance"), manifest.get("cost"))


def read_parts(folder: Path) -> dict[str, Any]:
    """Return the settings of the parts of a run by their names; none if it is from before they were recorded.

    Raises StoreError if the file is damaged.
    """
    path = folder / PARTS
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict):
            raise ValueError("it is no mapping")
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: the settings of parts cannot be read ({error}). Run the suite again.") from None
    return found


def settings_by_part(cell: Mapping[str, Any], stage: str, settings: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Yield every setting of a stage of a cell, with the part of the suite that it belongs to.

    Such as `("models", "lstm", "words", "training")` for what the model called `lstm` is trained with on the task
    called `words`; settings of the stage itself are `("cell", AXIS)` and `("limits", NAME)`.
    """
    kind, _, name = stage.partition("/")
    for setting, value in settings.items():
        if kind == "prepare":
            if setting != "split":  # of a task of which splits are prepared apart
                last = f"{setting}/{settings['split'] or 'train'}" if "split" in settings else setting
                yield ("tasks", str(cell["task"]), last), value
        elif setting in ("seed", "split"):
            yield ("cell", setting), value
        elif setting == "together":
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
        else:  # of score, the likelihood that a metric asks for
            last = f"{setting}/{name}" if kind == "score" else setting
            yield ("models", str(cell["model"]), str(cell["task"]), last), value


def at(settings: Any, path: Place) -> Any:
    """Return what stands at a path in nested mappings, or None."""
    for name in path:
        settings = _mapping(settings).get(name)
    return settings


def put(settings: dict[str, Any], path: Place, value: Any) -> None:
    """Put a value at a path in nested mappings, unless something is there."""
    for name in path[:-1]:
        settings = settings.setdefault(name, {})
    settings.setdefault(path[-1], value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
