"""Looks up the parts that a suite names, and parses their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bench_core.config import Config, ModelConfig, ProbeConfig
from bench_core.errors import SuiteError
from bench_core.registry import PartKind, part, suggestion
from bench_core.suites.extras import remedy
from bench_core.suites.problems import Problems
from bench_core.suites.schema import Limits
from bench_core.suites.suite import Entry
from bench_core.suites.training import Phase, TrainingConfig

C = TypeVar("C", bound=Config)


@dataclass
class Parts:
    """Looks up the parts of a suite, and parses their settings."""

    data: Mapping[str, Any]
    problems: Problems
    origins: Mapping[str, str] = field(default_factory=dict)  # combinations to the models that have the grids
    tasks: Set[str] = frozenset()  # that the suite names before anything is laid over it

    def configs(self, kind: PartKind, base: type[C]) -> dict[str, C]:
        """Return the settings of all valid parts of one kind."""
        given = section(self.data, f"{kind}s")
        found = {name: self.config(kind, name, settings) for name, settings in given.items()}
        return {name: config for name, config in found.items() if isinstance(config, base)}

    def models(self) -> dict[str, Entry]:
        """Return every model with its training settings: those of the suite, overridden by its own."""
        entries = {}
        for name, config in self.configs("model", ModelConfig).items():
            settings = self.data["models"][name]
            others = {}
            for task, changes in self._changes(name, settings).items():
                below = {key: value for key, value in settings.items() if key != "by_task"}
                other = self.config("model", name, merged(below, changes), ("by_task", task))
                if isinstance(other, ModelConfig):
                    others[task] = self._entry(name, other, merged(below, changes), ("by_task", task))
            entries[name] = replace(self._entry(name, config, settings, ()), by_task=others)
        return entries

    def _entry(self, name: str, config: ModelConfig, settings: Mapping[str, Any], inside: tuple[str, ...]) -> Entry:
        whole = merged(self.data.get("training") or {}, settings.get("training") or {})
        keys = ("models", self.origins.get(name, name), *inside)
        plan = self.problems.parsed(TrainingConfig, whole, (*keys, "training"))
        entry = Entry(config, plan or TrainingConfig())
        self._check_phases(entry, keys if "training" in settings else ())
        return entry

    def _changes(self, name: str, settings: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings that a model overrides by task, and report invalid ones."""
        keys: tuple[str, ...] = ("models", self.origins.get(name, name), "by_task")
        given, found = settings.get("by_task") or {}, {}
        if not isinstance(given, Mapping):
            self.problems.add(
                keys, "`by_task` maps tasks to settings, such as `by_task: {wikitext-2: {hidden: 512}}`."
            )
            return {}
        tasks = [*section(self.data, "tasks")]
        for task, changes in given.items():
            fixed = isinstance(changes, Mapping) and next(
                (key for key in ("name", "grid", "by_task") if key in changes), ""
            )
            if not isinstance(changes, Mapping):
                self.problems.add([*keys, task], "the settings for a task must be a mapping.")
            elif fixed:
                self.problems.add([*keys, task, fixed], f"`{fixed}` must be the same for all tasks.")
            elif task in tasks:
                found[task] = changes
            elif task not in self.tasks:
                self.problems.add(
                    [*keys, task], f"no task of this suite is called {task!r}. {suggestion(task, tasks)}"
                )
        return found

    def probes(self, models: Mapping[str, Entry]) -> dict[str, ProbeConfig]:
        """Return the probes of the suite, and those that its models require."""
        found = self.configs("probe", ProbeConfig)
        named = {config.name for config in found.values()}
        carried = {name for entry in models.values() for one in entry.all for name in one.config.probes}
        for name in sorted(carried - named):
            config = self.config("probe", name, {"name": name})
            if isinstance(config, ProbeConfig):
                found[name] = config
        return found

    def _check_phases(self, entry: Entry, own: Sequence[str]) -> None:
        for number, phase in enumerate(entry.training.phases):
            for key in phase.model_extra or {}:
                if key not in entry.config.by_phase:
                    known = [*Phase.model_fields, *sorted(entry.config.by_phase)]
                    text = f"a phase of {entry.config.name!r} cannot set {key!r}. {suggestion(key, known)}"
                    self.problems.add([*own, "training", "phases", number, key], text)

    def config(self, kind: PartKind, name: str, settings: Any, inside: tuple[str, ...] = ()) -> Config | None:
        """Return the parsed settings of one part, or None after reporting its problems."""
        origin = self.origins.get(name, name) if kind == "model" else name
        keys = (f"{kind}s", origin, *inside)
        if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
            self.problems.add(keys, f"{kind} {origin!r} must name a part, such as `{{name: ...}}`.")
            return None
        try:
            found = part(kind, settings["name"])
        except SuiteError as error:
            self.problems.add([*keys, "name"], str(error))
            return None
        schema = found.config
        aside = ("name", "training", "by_task") if kind == "model" else ("name",)
        own = {key: value for key, value in settings.items() if key not in aside}
        given = self.data.get("limits")
        limits = {**Limits().model_dump(), **(given if isinstance(given, Mapping) else {})}
        for setting, limit in schema.limits.items():
            if own.get(setting) is None:
                own[setting] = limits[limit]
        config = self.problems.parsed(schema, own, keys, name if name != origin else "")
        if config is not None and (command := remedy(found, config)):
            text = f"{kind} {schema.name!r} needs extras not installed: {', '.join(sorted(config.extras()))} of "
            self.problems.add([*keys, "name"], f"{text}{found.distribution}. Install it by: {command}")
        return config


def section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping of the suite, or an empty one if the value is not a mapping."""
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def merged(below: Any, above: Any) -> Any:
    """Merge nested settings; the second override the first."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: merged(below.get(key), value) for key, value in above.items()}}
