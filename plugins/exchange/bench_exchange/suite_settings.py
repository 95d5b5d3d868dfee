"""Compares the suite of a run with the planned settings of its parts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

from bench_core.config import ModelConfig
from bench_core.errors import SuiteError
from bench_core.registry import configured
from bench_core.runs.provenance import HARDWARE, PARTS, at
from bench_core.runs.results import Run, plain_file
from bench_core.runs.run_suite import effective_suite
from bench_core.suites import yaml_source
from bench_core.suites.parts import LENGTHS, merged

FILE = re.compile(r"sha256:[0-9a-f]{64}(\..+)?")  # a digest that represents a file or folder
#: Section -> setting of its stages.
NAMED = {"tasks": "task", "decoders": "decoder", "metrics": "metric", "probes": "probe"}
Settings: TypeAlias = Mapping[str, Any]
NOT_OF_PART = ("training", "by_task", "grid")  # keys of a model that its part does not read


def recorded_model(settings: Any) -> ModelConfig | None:
    """Return a model from its recorded settings, or None if its plugin is missing or incompatible."""
    try:
        model = configured("model", settings)
    except (SuiteError, ValueError, KeyError, TypeError):
        return None
    return model if isinstance(model, ModelConfig) else None


def unlike_settings(run: Run, parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield all values of suite.yaml that differ from the plan."""
    if sha256(plain_file(run.folder / "suite.yaml")).hexdigest() != parts.get("suite"):
        yield f"its digest differs from {PARTS}"
    source = yaml_source.read(run.folder / "suite.yaml")
    effective_suite(source)  # expands grids
    suite = source.data
    for section, setting in NAMED.items():
        for name, settings in as_mapping(suite.get(section)).items():
            planned = at(parts, (section, name, setting))
            if isinstance(planned, Mapping):
                yield from _unlike((section, name), settings, planned)
                yield from _unlike_limits(parts, section, name, settings, planned)
    for name, planned in as_mapping(parts.get("tasks")).items():
        for setting in (key for key in planned if key.startswith("task/")):
            yield from _contradicting(("tasks", name), planned[setting], planned.get("task"))
    for name, settings in as_mapping(suite.get("models")).items():
        for task, planned in as_mapping(at(parts, ("models", name))).items():
            yield from _model(suite, name, task, settings, as_mapping(planned))
    yield from _whole(suite, parts)


def _model(suite: Settings, name: str, task: str, settings: Settings, planned: Settings) -> Iterator[str]:
    """Yield differences between a model or its training and the plan for a task."""
    settings_on_task = merged(settings, at(settings, ("by_task", task)) or {})
    known = {key: value for group in planned.values() if isinstance(group, Mapping) for key, value in group.items()}
    known |= as_mapping(planned.get("model"))
    of_part = {key: value for key, value in settings_on_task.items() if key not in NOT_OF_PART}
    yield from _unlike(("models", name), of_part, known)
    training = merged(suite.get("training") or {}, settings_on_task.get("training") or {})
    recorded = {**as_mapping(planned.get("training")), "initial": planned.get("initial")}
    if "training" not in planned:
        yield from _fixed_model(name, settings_on_task, training, planned)
        return
    training = {key: value for key, value in training.items() if key != "vmap_seeds"}  # affects planning only
    yield from _unlike(("models", name, "training"), training, recorded)


def _fixed_model(name: str, settings: Settings, training: Settings, planned: Settings) -> Iterator[str]:
    """Yield differences for a model that the plan evaluates without training."""
    model = recorded_model(planned.get("model"))
    if LENGTHS.isdisjoint(as_mapping(settings.get("training"))) and (model is None or model.is_pretrained()):
        return  # without a training length, other settings do not apply
    initial = {key: value for key, value in training.items() if key == "initial"}
    yield from _unlike(("models", name, "training"), initial, planned)
    if training.get("mode") != "evaluate" and (training.get("updates") != 0 or training.get("phases")):
        yield f"models.{name} is trained by the suite, but was planned for evaluation without training"


def _whole(suite: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield differences in seeds, splits, limits and hardware."""
    seeds = suite.get("seeds", 1)
    seeds = [*range(seeds)] if isinstance(seeds, int) else seeds
    yield from _unlike((), {"seeds": seeds, "splits": suite.get("splits") or ["test"]}, parts)
    yield from _unlike(("limits",), suite.get("limits") or {}, as_mapping(parts.get("limits")))
    settings = suite.get("hardware") or {}
    are_named = settings and all(isinstance(value, Mapping) for value in settings.values())
    for name, hardware in (settings if are_named else {"default": settings}).items():
        planned = as_mapping(at(parts, ("hardware", name)))
        requested = {key: value for key, value in hardware.items() if key in HARDWARE and value != "auto" and planned}
        yield from _unlike(("hardware", name), requested, planned)


def _unlike_limits(parts: Settings, section: str, name: str, settings: Settings, planned: Settings) -> Iterator[str]:
    """Yield part settings that were taken from limits of the suite but differ from these limits."""
    limits = as_mapping(parts.get("limits"))
    for setting, limit in as_mapping(at(parts, ("limited", section, name))).items():
        if settings.get(setting) is None and not _alike(limits.get(limit), planned.get(setting)):
            known = f"{section}.{name} was planned with {planned.get(setting)!r}"
            yield f"limits.{limit} is {limits.get(limit)!r}, but {known}"


def _unlike(way: Sequence[str], settings: Any, planned: Mapping[str, Any]) -> Iterator[str]:
    for key, value in as_mapping(settings).items():
        if key not in planned:
            yield f"{'.'.join([*way, str(key)])} was not planned"
        elif not _alike(_plain(key, value), planned[key]):
            yield f"{'.'.join([*way, str(key)])} is {truncate(value)}, but was planned as {truncate(planned[key])}"


def _contradicting(way: Sequence[str], part: Any, whole: Any) -> Iterator[str]:
    """Yield settings of a split that contradict the settings of its task; both may be incomplete."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        for key in part:
            yield from _contradicting((*way, str(key)), part[key], whole.get(key))
    elif part and whole and part != whole:
        yield f"{'.'.join(way)} is {truncate(whole)}, but was planned as {truncate(part)} for a split"


def _alike(value: Any, planned: Any) -> bool:
    """Return whether a value of a suite is compatible with a planned value, which may have defaults and digests."""
    if value is None or (isinstance(planned, str) and FILE.fullmatch(planned)):
        return True
    if isinstance(value, Mapping):
        if not isinstance(planned, Mapping):
            return True
        if not {*value} & {*planned}:  # a short form
            return all(_alike(value, item) for item in planned.values())
        return all(key in planned and _alike(_plain(key, item), planned[key]) for key, item in value.items())
    if isinstance(planned, Mapping):  # the name of a part, or a short form
        alike = _plain("name", value) == planned.get("name")
        return not isinstance(value, str) or "name" not in planned or alike or len(planned) > 1
    if isinstance(planned, list):
        values = value if isinstance(value, list) else [value]
        return len(values) == len(planned) and all(map(_alike, values, planned))
    if isinstance(planned, bool) or isinstance(value, bool):
        return str(value).lower() == str(planned).lower()
    if isinstance(planned, int | float):
        try:
            return float(value) == float(planned)
        except (TypeError, ValueError):
            return False
    return str(value) == str(planned)


def _plain(key: str, value: Any) -> Any:
    """Return the name of a part without its distribution; other values unchanged."""
    return value.rpartition("/")[2] if key == "name" and isinstance(value, str) else value


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping; empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def truncate(value: Any) -> str:
    """Return the repr of a value, truncated for messages."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
