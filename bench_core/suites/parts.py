"""Finds the parts that a suite names, and parses their settings."""

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

LENGTHS = {"mode", "updates", "epochs", "phases"}  #: settings that determine whether and how long to train


@dataclass
class Parts:
    """Finds the parts of a suite, and parses their settings."""

    data: Mapping[str, Any]
    problems: Problems
    origins: Mapping[str, str] = field(default_factory=dict)  # combination -> model with the grid
    tasks: Set[str] = frozenset()  # all names, including names that the profile or `--set` removes
    file: SuiteFile | None = None

    def configs(self, kind: PartKind, base: type[C]) -> dict[str, C]:
        """Return the Configs of all known parts of a kind; invalid settings are unreadable."""
        entries = section(self.data, f"{kind}s")
        by_name = {name: self.config(kind, name, settings) for name, settings in entries.items()}
        return {name: config for name, config in by_name.items() if isinstance(config, base)}

    def models(self) -> dict[str, Entry]:
        """Return every model with its training settings: the suite's, overridden by the model's own."""
        entries = {}
        common = self.problems.parsed(training_schema(), section(self.data, "training"), ("training",))
        for name, settings in section(self.data, "models").items():
            config = self.config("model", name, settings)
            training = _or_evaluated(config, settings, self._training(name, settings, "", common))
            others = {}
            for task, changes in self._changes(name, settings).items():
                combined = merged(_without(settings, "by_task"), changes)
                other = self.config("model", name, combined, task)
                task_training = self._training(name, combined, task, training) if "training" in changes else training
                if isinstance(other, ModelConfig):
                    others[task] = Entry(other, _or_evaluated(other, combined, task_training))
            if isinstance(config, ModelConfig):
                entries[name] = Entry(config, training, others)
        return entries

    def training_keys(self, name: str, task: str, inside: Keys) -> Keys:
        """Return the keys, as in the file, to a training setting of a model. See `training_keys`."""
        return self._in_file(training_keys(self.data, name, task, inside))

    def _in_file(self, keys: Keys) -> Keys:
        """Return the keys in the file for keys in the data: combinations are replaced by their grid."""
        return ("models", self.origins.get(str(keys[1]), keys[1]), *keys[2:]) if keys[0] == "models" else keys

    def _training(self, name: str, settings: Any, task: str, below: TrainingBase) -> TrainingBase:
        """Return the training settings of a model on a task, which override `below`.

        Problems of inherited settings (from `training:`, or for all tasks) are reported once, at their place.
        """
        overrides = settings.get("training") if isinstance(settings, Mapping) else None
        if overrides is None:
            return below
        own_keys: Keys = ("models", name, *(("by_task", task) if task else ()), "training")
        keys = self._in_file(own_keys)

        def places(inside: Keys) -> Keys | None:
            actual = training_keys(self.data, name, task, inside) if inside else own_keys
            is_below = actual[: len(own_keys)] != own_keys and _contains(self.data, actual)
            return None if is_below else self._in_file(actual)

        if not isinstance(overrides, Mapping):
            self.problems.add(keys, "'training' must be a mapping.")
            return below
        common, known = section(self.data, "training"), {*objections(training_schema(), below)}
        return self.problems.parsed(training_schema(), merged(common, overrides), keys, places=places, known=known)

    @cached_property
    def _limits(self) -> Limits:
        if self.file is not None and hasattr(self.file, "limits"):
            return self.file.limits
        return self.problems.parsed(Limits, self.data.get("limits") or {}, ("limits",))

    def _changes(self, name: str, settings: Any) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings that a model overrides by task; report invalid settings."""
        keys: tuple[str, ...] = ("models", self.origins.get(name, name), "by_task")
        by_task, valid = (settings.get("by_task") or {}) if isinstance(settings, Mapping) else {}, {}
        if not isinstance(by_task, Mapping):
            text = "`by_task` must map tasks to settings, such as `by_task: {wikitext-2: {hidden: 512}}`."
            self.problems.add(keys, text)
            return {}
        tasks = [*section(self.data, "tasks")]
        for task, changes in by_task.items():
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
                valid[task] = _without(changes, *fixed)
        return valid

    def probes(self, models: Mapping[str, Entry]) -> dict[str, ProbeConfig]:
        """Return the probes of the suite and the probes that its models require."""
        by_name = self.configs("probe", ProbeConfig)
        named = {name_here("probe", type(config)) for config in by_name.values()}
        model_configs = (variant.config for entry in models.values() for variant in entry.all)
        required = {name_beside("probe", name, config) for config in model_configs for name in config.probes}
        for name in sorted(required - named):
            config = self.config("probe", name, {"name": name})
            if isinstance(config, ProbeConfig):
                by_name[name] = config
        return by_name

    def config(self, kind: PartKind, name: str, settings: Any, task: str = "") -> Config | None:
        """Return the Config of a part (for a model, on a `task`), or None, and report its problems."""
        origin = self.origins.get(name, name) if kind == "model" else name
        keys = (f"{kind}s", origin)
        if not isinstance(settings, Mapping):  # reported by the schema
            return None
        if not isinstance(settings.get("name"), str):
            self.problems.add(keys, f"{kind} {origin!r} must name a part, such as `{{name: ...}}`.")
            return None
        try:
            match = part(kind, settings["name"])
        except SuiteError as error:
            self.problems.add([*keys, "name"], str(error))
            return None
        schema = match.config
        values = _without(settings, *(("name", "training", "by_task") if kind == "model" else ("name",)))
        for setting, limit in schema.limits.items():
            if values.get(setting) is None and hasattr(self._limits, limit):
                values[setting] = getattr(self._limits, limit)

        def places(inside: Keys) -> Keys:
            special = (*keys, "by_task", task)
            is_task_setting = not inside or _contains(self.data, ("models", name, "by_task", task, *inside))
            return (*special, *inside) if task and is_task_setting else (*keys, *inside)

        config = self.problems.parsed(schema, values, keys, name if name != origin else "", places)
        with suppress(Unreadable):
            if command := remedy(match, config):
                text = f"{kind} {schema.name!r} needs extras not installed: {', '.join(sorted(config.extras()))} of "
                self.problems.add([*keys, "name"], f"{text}{match.distribution}. Install them with: {command}")
        return config


def _or_evaluated(config: Config | None, settings: Any, training: TrainingBase) -> TrainingBase:
    """Return a model's training settings; pretrained models are only evaluated unless their settings set a length."""
    overrides = settings.get("training") if isinstance(settings, Mapping) else None
    is_explicit = isinstance(overrides, Mapping) and not overrides.keys().isdisjoint(LENGTHS)
    if not isinstance(config, ModelConfig) or is_explicit or not config.is_pretrained():
        return training
    return training_schema()(mode="evaluate")


def training_keys(data: Mapping[str, Any], name: str, task: str, inside: Keys) -> Keys:
    """Return the key path of a model's training setting: for the task, for all tasks, or in `training:`."""
    levels: list[Keys] = [("by_task", task), ()] if task else [()]
    paths: list[Keys] = [("models", name, *level, "training", *inside) for level in levels]
    return next((path for path in paths if _contains(data, path)), ("training", *inside))


def _without(settings: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in keys}


def _contains(data: Any, keys: Keys) -> bool:
    """Return whether there is a value at `keys`; a word may abbreviate `{name: WORD}`, and a value `[VALUE]`."""
    for key in keys:
        if (key == 0 and isinstance(data, Mapping | str)) or (key == "name" and isinstance(data, str)):
            continue
        is_item = isinstance(data, list) and isinstance(key, int) and key < len(data)
        if not is_item and not (isinstance(data, Mapping) and key in data):
            return False
        data = data[key]
    return True


def section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of the suite; empty if it is missing or not a mapping."""
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def merged(below: Any, above: Any) -> Any:
    """Merge nested settings; `above` overrides `below`."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: merged(below.get(key), value) for key, value in above.items()}}
