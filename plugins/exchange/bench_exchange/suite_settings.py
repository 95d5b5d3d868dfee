"""Compares the suite of a run with the settings of its parts, as these were planned."""

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

FILE = re.compile(r"sha256:[0-9a-f]{64}(\..+)?")  # stands for a file or folder
#: Section -> setting of stages
NAMED = {"tasks": "task", "decoders": "decoder", "metrics": "metric", "probes": "probe"}
Settings: TypeAlias = Mapping[str, Any]
ASIDE = ("training", "by_task", "grid")  # of a model: what its part does not read


def recorded_model(settings: Any) -> ModelConfig | None:
    """Return a model by its recorded settings, or None: its plugin is not installed, or is another by now."""
    try:
        found = configured("model", settings)
    except (SuiteError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, ModelConfig) else None


def unlike_settings(run: Run, parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield every value of suite.yaml that is not the one which was planned."""
    if sha256(plain_file(run.folder / "suite.yaml")).hexdigest() != parts.get("suite"):
        yield f"its digest is not that in {PARTS}"
    source = yaml_source.read(run.folder / "suite.yaml")
    effective_suite(source)  # which expands grids
    suite = source.data
    for section, setting in NAMED.items():
        for name, settings in as_mapping(suite.get(section)).items():
            planned = at(parts, (section, name, setting))
            if isinstance(planned, Mapping):
                yield from _unlike((section, name), settings, planned)
                yield from _limited(parts, section, name, settings, planned)
    for name, planned in as_mapping(parts.get("tasks")).items():
        for setting in (one for one in planned if one.startswith("task/")):
            yield from _contradicting(("tasks", name), planned[setting], planned.get("task"))
    for name, settings in as_mapping(suite.get("models")).items():
        for task, planned in as_mapping(at(parts, ("models", name))).items():
            yield from _model(suite, name, task, settings, as_mapping(planned))
    yield from _whole(suite, parts)


def _model(suite: Settings, name: str, task: str, settings: Settings, planned: Settings) -> Iterator[str]:
    """Yield where a model, or its training, is another one than was planned for a task."""
    own = merged(settings, at(settings, ("by_task", task)) or {})
    known = {key: value for one in planned.values() if isinstance(one, Mapping) for key, value in one.items()}
    known |= as_mapping(planned.get("model"))
    yield from _unlike(("models", name), {key: one for key, one in own.items() if key not in ASIDE}, known)
    training = merged(suite.get("training") or {}, own.get("training") or {})
    recorded = {**as_mapping(planned.get("training")), "initial": planned.get("initial")}
    if "training" not in planned:
        yield from _as_it_is(name, own, training, planned)
        return
    training = {key: one for key, one in training.items() if key != "together"}  # which says how seeds are planned
    yield from _unlike(("models", name, "training"), training, recorded)


def _as_it_is(name: str, own: Settings, training: Settings, planned: Settings) -> Iterator[str]:
    """Yield where a model is trained by the suite, or has other weights, and was planned to be evaluated as it is."""
    model = recorded_model(planned.get("model"))
    if LENGTHS.isdisjoint(as_mapping(own.get("training"))) and (model is None or model.is_pretrained()):
        return  # it heeds no settings that do not say how long it is trained
    initial = {key: value for key, value in training.items() if key == "initial"}
    yield from _unlike(("models", name, "training"), initial, planned)
    if training.get("mode") != "evaluate" and (training.get("updates") != 0 or training.get("phases")):
        yield f"models.{name} is trained by the suite, and was planned to be evaluated as it is"


def _whole(suite: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield where seeds, splits, limits and hardware are not the planned ones."""
    seeds = suite.get("seeds", 1)
    seeds = [*range(seeds)] if isinstance(seeds, int) else seeds
    yield from _unlike((), {"seeds": seeds, "splits": suite.get("splits") or ["test"]}, parts)
    yield from _unlike(("limits",), suite.get("limits") or {}, as_mapping(parts.get("limits")))
    given = suite.get("hardware") or {}
    several = given if given and all(isinstance(one, Mapping) for one in given.values()) else {"default": given}
    for name, hardware in several.items():
        planned = as_mapping(at(parts, ("hardware", name)))
        asked = {key: one for key, one in hardware.items() if key in HARDWARE and one != "auto" and planned}
        yield from _unlike(("hardware", name), asked, planned)


def _limited(parts: Settings, section: str, name: str, settings: Settings, planned: Settings) -> Iterator[str]:
    """Yield the settings that a part took from the limits of the suite, and that are not these limits."""
    limits = as_mapping(parts.get("limits"))
    for setting, limit in as_mapping(at(parts, ("limited", section, name))).items():
        if settings.get(setting) is None and not _alike(limits.get(limit), planned.get(setting)):
            known = f"{section}.{name} was planned with {planned.get(setting)!r}"
            yield f"limits.{limit} is {limits.get(limit)!r}, but {known}"


def _unlike(way: Sequence[str], given: Any, planned: Mapping[str, Any]) -> Iterator[str]:
    for key, value in as_mapping(given).items():
        if key not in planned:
            yield f"{'.'.join([*way, str(key)])} was not planned"
        elif not _alike(_plain(key, value), planned[key]):
            yield f"{'.'.join([*way, str(key)])} is {shortened(value)}, and was planned as {shortened(planned[key])}"


def _contradicting(way: Sequence[str], part: Any, whole: Any) -> Iterator[str]:
    """Yield the settings of a split that are not those of its task; either may lack some."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        for key in part:
            yield from _contradicting((*way, str(key)), part[key], whole.get(key))
    elif part and whole and part != whole:
        yield f"{'.'.join(way)} is {shortened(whole)}, and was planned for a split as {shortened(part)}"


def _alike(given: Any, planned: Any) -> bool:
    """Return whether a value of a suite may have become a planned one: defaults are filled in, files are digested."""
    if given is None or (isinstance(planned, str) and FILE.fullmatch(planned)):
        return True
    if isinstance(given, Mapping):
        if not isinstance(planned, Mapping):
            return True
        if not {*given} & {*planned}:  # a short form of something else
            return all(_alike(given, one) for one in planned.values())
        return all(key in planned and _alike(_plain(key, one), planned[key]) for key, one in given.items())
    if isinstance(planned, Mapping):  # a name that stands for a part, or a short form
        alike = _plain("name", given) == planned.get("name")
        return not isinstance(given, str) or "name" not in planned or alike or len(planned) > 1
    if isinstance(planned, list):
        values = given if isinstance(given, list) else [given]
        return len(values) == len(planned) and all(map(_alike, values, planned))
    if isinstance(planned, bool) or isinstance(given, bool):
        return str(given).lower() == str(planned).lower()
    if isinstance(planned, int | float):
        try:
            return float(given) == float(planned)
        except (TypeError, ValueError):
            return False
    return str(given) == str(planned)


def _plain(key: str, value: Any) -> Any:
    """Return the name of a part without its distribution, as stages have it; other values as they are."""
    return value.rpartition("/")[2] if key == "name" and isinstance(value, str) else value


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping, which is empty in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def shortened(value: Any) -> str:
    """Return a value as messages show it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
