"""Looks up the parts that a suite names, and parses their settings."""

from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from bench_core.config import Config, ModelConfig, ProbeConfig
from bench_core.errors import SuiteError
from bench_core.registry import PartKind, name_beside, name_here, part, suggestion
from bench_core.suites.extras import remedy
from bench_core.suites.schema import Limits, SuiteFile
from bench_core.suites.suite import Entry
from bench_core.suites.training import TrainingBase, training_schema
from placed_settings import Keys, Problems, Unreadable, objections

C = TypeVar("C", bound=Config)

LENGTHS = {"mode", "updates", "epochs", "phases"}  #: settings of a training that say whether and how long it is


@dataclass
class Parts:
    """Looks up the parts of a suite, and parses their settings."""

    data: Mapping[str, Any]
    problems: Problems
    origins: Mapping[str, str] = field(default_factory=dict)  # combinations to the models that have the grids
    tasks: Set[str] = frozenset()  # that the suite names before anything is laid over it
    file: SuiteFile | None = None  # the suite itself, for its limits and training

    def configs(self, kind: PartKind, base: type[C]) -> dict[str, C]:
        """Return the settings of all known parts of one kind; invalid settings are unreadable."""
        given = section(self.data, f"{kind}s")
        found = {name: self.config(kind, name, settings) for name, settings in given.items()}
        return {name: config for name, config in found.items() if isinstance(config, base)}

    def models(self) -> dict[str, Entry]:
        """Return every model with its training settings: those of the suite, overridden by its own."""
        entries, common = {}, self._common
        for name, settings in section(self.data, "models").items():
            config = self.config("model", name, settings)
            training = _or_evaluated(config, settings, self._training(name, settings, "", common))
            others = {}
            for task, changes in self._changes(name, settings).items():
                whole = merged(_without(settings, "by_task"), changes)
                other = self.config("model", name, whole, task)
                own = self._training(name, whole, task, training) if "training" in changes else training
                if isinstance(other, ModelConfig):
                    others[task] = Entry(other, _or_evaluated(other, whole, own))
            if isinstance(config, ModelConfig):
                entries[name] = Entry(config, training, others)
        return entries

    def training_keys(self, name: str, task: str, inside: Keys) -> Keys:
        """Return the keys to a setting in the training of a model, as `training_keys` does."""
        return self._in_file(training_keys(self.data, name, task, inside))

    def _in_file(self, keys: Keys) -> Keys:
        """Return the keys in the file to a value in the data: a grid has the place of its combinations."""
        return ("models", self.origins.get(str(keys[1]), keys[1]), *keys[2:]) if keys[0] == "models" else keys

    def _training(self, name: str, settings: Any, task: str, below: TrainingBase) -> TrainingBase:
        """Return the training of a model, on a task, from its settings and from what is `below` them.

        Problems of what it has from `training:`, or from all tasks, are reported there, once.
        """
        own = settings.get("training") if isinstance(settings, Mapping) else None
        if own is None:
            return below
        here: Keys = ("models", name, *(("by_task", task) if task else ()), "training")
        keys = self._in_file(here)

        def places(inside: Keys) -> Keys | None:
            at = training_keys(self.data, name, task, inside) if inside else here
            is_below = at[: len(here)] != here and _contains(self.data, at)
            return None if is_below else self._in_file(at)

        if not isinstance(own, Mapping):
            self.problems.add(keys, "'training' must be a mapping.")
            return below
        common, known = section(self.data, "training"), {*objections(training_schema(), below)}
        return self.problems.parsed(training_schema(), merged(common, own), keys, places=places, known=known)

    @cached_property
    def _common(self) -> TrainingBase:
        """Return the training of the suite."""
        return self.problems.parsed(training_schema(), section(self.data, "training"), ("training",))

    @cached_property
    def _limits(self) -> Limits:
        if self.file is not None and hasattr(self.file, "limits"):
            return self.file.limits
        return self.problems.parsed(Limits, self.data.get("limits") or {}, ("limits",))

    def _changes(self, name: str, settings: Any) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings that a model overrides by task, and report invalid ones."""
        keys: tuple[str, ...] = ("models", self.origins.get(name, name), "by_task")
        given, found = (settings.get("by_task") or {}) if isinstance(settings, Mapping) else {}, {}
        if not isinstance(given, Mapping):
            self.problems.add(
                keys, "`by_task` maps tasks to settings, such as `by_task: {wikitext-2: {hidden: 512}}`."
            )
            return {}
        tasks = [*section(self.data, "tasks")]
        for task, changes in given.items():
            if task not in tasks and task not in self.tasks:
                text = f"no task of this suite is called {task!r}. {suggestion(task, tasks)}"
                self.problems.add([*keys, task], text)
            if not isinstance(changes, Mapping):
                self.problems.add([*keys, task], "the settings for a task must be a mapping.")
                continue
            fixed = [key for key in ("name", "grid", "by_task") if key in changes]
            for key in fixed:
                self.problems.add([*keys, task, key], f"`{key}` must be the same for all tasks.")
            if task in tasks:
                found[task] = _without(changes, *fixed)
        return found

    def probes(self, models: Mapping[str, Entry]) -> dict[str, ProbeConfig]:
        """Return the probes of the suite, and those that its models require."""
        found = self.configs("probe", ProbeConfig)
        named = {name_here("probe", type(config)) for config in found.values()}
        carrying = (one.config for entry in models.values() for one in entry.all)
        carried = {name_beside("probe", name, config) for config in carrying for name in config.probes}
        for name in sorted(carried - named):
            config = self.config("probe", name, {"name": name})
            if isinstance(config, ProbeConfig):
                found[name] = config
        return found

    def config(self, kind: PartKind, name: str, settings: Any, task: str = "") -> Config | None:
        """Return the settings of one part, for a model those on a `task`, after reporting their problems.

        None if there is no such part.
        """
        origin = self.origins.get(name, name) if kind == "model" else name
        keys = (f"{kind}s", origin)
        if not isinstance(settings, Mapping):  # which the schema reports
            return None
        if not isinstance(settings.get("name"), str):
            self.problems.add(keys, f"{kind} {origin!r} must name a part, such as `{{name: ...}}`.")
            return None
        try:
            found = part(kind, settings["name"])
        except SuiteError as error:
            self.problems.add([*keys, "name"], str(error))
            return None
        schema = found.config
        own = _without(settings, *(("name", "training", "by_task") if kind == "model" else ("name",)))
        for setting, limit in schema.limits.items():
            if own.get(setting) is None and hasattr(self._limits, limit):
                own[setting] = getattr(self._limits, limit)

        def places(inside: Keys) -> Keys:
            special = (*keys, "by_task", task)
            own_here = not inside or _contains(self.data, ("models", name, "by_task", task, *inside))
            return (*special, *inside) if task and own_here else (*keys, *inside)

        config = self.problems.parsed(schema, own, keys, name if name != origin else "", places)
        with suppress(Unreadable):
            if command := remedy(found, config):
                text = f"{kind} {schema.name!r} needs extras not installed: {', '.join(sorted(config.extras()))} of "
                self.problems.add([*keys, "name"], f"{text}{found.distribution}. Install it by: {command}")
        return config


def _or_evaluated(config: Config | None, settings: Any, training: TrainingBase) -> TrainingBase:
    """Return the training of a model; what is pretrained is evaluated unless its own settings say how it trains."""
    own = settings.get("training") if isinstance(settings, Mapping) else None
    says = isinstance(own, Mapping) and not own.keys().isdisjoint(LENGTHS)
    if not isinstance(config, ModelConfig) or says or not config.is_pretrained():
        return training
    return training_schema()(mode="evaluate")


def training_keys(data: Mapping[str, Any], name: str, task: str, inside: Keys) -> Keys:
    """Return the keys to a setting in the training of a model: for a task, for all tasks, or in `training:`."""
    own: list[Keys] = [("by_task", task), ()] if task else [()]
    ways: list[Keys] = [("models", name, *each, "training", *inside) for each in own]
    return next((way for way in ways if _contains(data, way)), ("training", *inside))


def _without(settings: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in keys}


def _contains(data: Any, keys: Keys) -> bool:
    """Return whether there is a value at `keys`; a word may stand for `{name: WORD}`, an item for a list of one."""
    for key in keys:
        if (key == 0 and isinstance(data, Mapping | str)) or (key == "name" and isinstance(data, str)):
            continue
        is_item = isinstance(data, list) and isinstance(key, int) and key < len(data)
        if not is_item and not (isinstance(data, Mapping) and key in data):
            return False
        data = data[key]
    return True


def section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping of the suite, or an empty one if the value is not a mapping."""
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def merged(below: Any, above: Any) -> Any:
    """Merge nested settings; the second override the first."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: merged(below.get(key), value) for key, value in above.items()}}
