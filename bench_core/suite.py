"""A suite with all of its parts looked up and their settings parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench_core import located
from bench_core.config import Config, DecoderConfig, MetricConfig, ModelConfig, TaskConfig
from bench_core.errors import SuiteError
from bench_core.located import Located
from bench_core.mistakes import Mistakes
from bench_core.names import References
from bench_core.published import Published, load_published
from bench_core.registry import PartKind, part, suggestion
from bench_core.schema import Hardware, Limits, Phase, Skip, SuiteFile, Table, TrainingConfig

C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Entry:
    """A model of a suite: its settings, and how it is trained."""

    config: ModelConfig
    training: TrainingConfig


@dataclass(frozen=True)
class Suite:
    """A suite whose names are resolved and whose settings are parsed; mappings go from the suite's names."""

    name: str
    profile: str | None
    title: str
    source: str
    tasks: Mapping[str, TaskConfig]
    models: Mapping[str, Entry]
    decoders: Mapping[str, DecoderConfig]
    metrics: Mapping[str, MetricConfig]
    seeds: Sequence[int]
    splits: Sequence[str]
    limits: Limits
    hardware: Mapping[str, Hardware]
    skip: Sequence[Skip]
    tables: Sequence[Table]
    published: Mapping[str, Published] = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)  # as written, with profile and settings applied

    @property
    def label(self) -> str:
        """Return the name that its reports go by, such as `strlm/table-1-small`."""
        return f"{self.name}-{self.profile}" if self.profile else self.name


def load(path: Path, profile: str | None = None, settings: Sequence[str] = (), seeds: int | None = None) -> Suite:
    """Read a suite file; raise SuiteError with every mistake in it, each with file, line and column."""
    source = located.read(path)
    return resolve(source, path.parent, profile, settings, seeds)


def resolve(
    source: Located, folder: Path, profile: str | None = None, settings: Sequence[str] = (), seeds: int | None = None
) -> Suite:
    """Apply profile, `--set` and `--seeds` to a suite and look up all that it names."""
    whole = {kind: set(_section(source.data, kind)) for kind in ("models", "decoders", "metrics", "tasks")}
    _apply(source, profile, settings, seeds)
    mistakes = Mistakes(source)
    file = mistakes.parsed(SuiteFile, source.data, ())
    parts = Parts(source.data, mistakes)
    tasks, models = parts.configs("task", TaskConfig), parts.models()
    decoders, metrics = parts.configs("decoder", DecoderConfig), parts.configs("metric", MetricConfig)
    if file is None:
        raise mistakes.error()
    suite = Suite(
        name=file.suite,
        profile=profile,
        title=file.title,
        source=file.source,
        tasks=tasks,
        models=models,
        decoders=decoders,
        metrics=metrics,
        seeds=list(range(file.seeds)) if isinstance(file.seeds, int) else file.seeds,
        splits=file.splits,
        limits=file.limits,
        hardware={"default": file.hardware} if isinstance(file.hardware, Hardware) else file.hardware,
        skip=file.skip,
        tables=file.tables,
        published=load_published(folder / "references"),
        effective={key: value for key, value in source.data.items() if key != "profiles"},
    )
    References(suite, source, mistakes, whole).check()
    if mistakes.found:
        raise mistakes.error()
    return suite


def _apply(source: Located, profile: str | None, settings: Sequence[str], seeds: int | None) -> None:
    if profile is not None:
        profiles = source.data.get("profiles")
        known = list(profiles) if isinstance(profiles, dict) else []
        if profile not in known:
            raise SuiteError(f"{source.place(['profiles'])}: no profile {profile!r}. {suggestion(profile, known)}")
        if not isinstance(profiles[profile], dict):  # type: ignore[index]
            raise SuiteError(f"{source.place(['profiles', profile])}: a profile is a mapping of what it changes.")
        source.overlay(profiles[profile], ("profiles", profile))  # type: ignore[index]
    for setting in settings:
        keys, equals, value = setting.partition("=")
        if not equals or not keys:
            raise SuiteError(f"--set {setting}: expected KEY.KEY=VALUE, such as --set models.lstm.hidden=64.")
        if isinstance(source.data.get(keys.partition(".")[0]), list):
            raise SuiteError(f"--set {setting}: lists are set as a whole, such as --set 'splits=[valid, test]'.")
        source.put(tuple(_split(keys, source.data)), located.scalar(value), f"--set {keys}")
    if seeds is not None:
        source.put(("seeds",), seeds, "--seeds")


def _split(keys: str, data: Any) -> list[str]:
    """Split at dots, but not inside a key that is there, such as `nucleus-0.2`."""
    words = keys.split(".")
    for end in range(len(words), 0, -1):
        key = ".".join(words[:end])
        if isinstance(data, dict) and key in data:
            return [key, *(_split(".".join(words[end:]), data[key]) if end < len(words) else [])]
    return [words[0], *(_split(".".join(words[1:]), None) if len(words) > 1 else [])]


@dataclass
class Parts:
    """The parts that a suite names, looked up and parsed."""

    data: Mapping[str, Any]
    mistakes: Mistakes

    def configs(self, kind: PartKind, base: type[C]) -> dict[str, C]:
        """Return the settings of every part of one kind that has no mistake."""
        section = _section(self.data, f"{kind}s")
        found = {name: self.config(kind, name, settings) for name, settings in section.items()}
        return {name: config for name, config in found.items() if isinstance(config, base)}

    def models(self) -> dict[str, Entry]:
        """Return every model with its training, which is the suite's with the model's own settings laid over."""
        entries = {}
        for name, config in self.configs("model", ModelConfig).items():
            own = self.data["models"][name].get("training") or {}
            merged = _merged(self.data.get("training") or {}, own)
            plan = self.mistakes.parsed(TrainingConfig, merged, ("models", name, "training"))
            entries[name] = Entry(config, plan or TrainingConfig())
            self._check_phases(name, entries[name])
        return entries

    def _check_phases(self, name: str, entry: Entry) -> None:
        for number, phase in enumerate(entry.training.phases):
            for key in phase.model_extra or {}:
                if key not in entry.config.by_phase:
                    known = [*Phase.model_fields, *sorted(entry.config.by_phase)]
                    text = f"a phase of {entry.config.name!r} cannot set {key!r}. {suggestion(key, known)}"
                    own = ("models", name) if "training" in self.data["models"][name] else ()
                    self.mistakes.add([*own, "training", "phases", number, key], text)

    def config(self, kind: PartKind, name: str, settings: Any) -> Config | None:
        """Return the parsed settings of one part, or None after noting what is wrong."""
        keys = (f"{kind}s", name)
        if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
            self.mistakes.add(keys, f"{kind} {name!r} must say which part it is, such as `{{name: ...}}`.")
            return None
        try:
            schema = part(kind, settings["name"]).config
        except SuiteError as error:
            self.mistakes.add([*keys, "name"], str(error))
            return None
        own = {
            key: value for key, value in settings.items() if key != "name" and (kind, key) != ("model", "training")
        }
        given = self.data.get("limits")
        limits = {**Limits().model_dump(), **(given if isinstance(given, Mapping) else {})}
        for setting, limit in schema.limits.items():
            if own.get(setting) is None:
                own[setting] = limits[limit]
        return self.mistakes.parsed(schema, own, keys)


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping of the suite, or nothing where something else stands in its place."""
    section = data.get(name)
    return section if isinstance(section, Mapping) else {}


def _merged(below: Any, above: Any) -> Any:
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
