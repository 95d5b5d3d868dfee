"""A suite with all of its parts looked up and their settings parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from bench_core.config import CertificateConfig, Config, DecoderConfig, MetricConfig, ModelConfig, TaskConfig
from bench_core.errors import SuiteError
from bench_core.extras import remedy
from bench_core.registry import PartKind, part, suggestion
from bench_core.suites import yaml_source as located
from bench_core.suites.grids import ModelGrid, expand, origins, plainly
from bench_core.suites.name_check import References
from bench_core.suites.problems import Mistakes
from bench_core.suites.published import Published, load_published
from bench_core.suites.schema import (
    Choice,
    Claim,
    Figure,
    Hardware,
    Limits,
    Phase,
    Skip,
    SuiteFile,
    Table,
    TrainingConfig,
)
from bench_core.suites.yaml_source import Located

C = TypeVar("C", bound=Config)

MOST_CELLS = 250_000  #: of a suite
LONGEST = 100  # characters of what was typed, in a message
LONGEST_LABEL = 200  # bytes: it is the name of folders


@dataclass(frozen=True)
class Entry:
    """A model of a suite: its settings, and how it is trained."""

    config: ModelConfig
    training: TrainingConfig
    by_task: Mapping[str, Entry] = field(default_factory=dict)  # what it is on the tasks for which it is another

    def at(self, task: str) -> Entry:
        """Return what it is on a task."""
        return self.by_task.get(task, self)

    @property
    def all(self) -> list[Entry]:
        """Return what it is anywhere."""
        return [self, *self.by_task.values()]


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
    certificates: Mapping[str, CertificateConfig]
    seeds: Sequence[int]
    splits: Sequence[str]
    limits: Limits
    hardware: Mapping[str, Hardware]
    skip: Sequence[Skip]
    tables: Sequence[Table]
    figures: Sequence[Figure]
    claims: Sequence[Claim] = ()
    choose: Sequence[Choice] = ()
    grids: Mapping[str, ModelGrid] = field(default_factory=dict)  # by the names of models that stand for several
    published: Mapping[str, Published] = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)  # as written, with profile and settings applied
    changes: Sequence[str] = ()  # keys that `--set` gave another value
    asked: Sequence[str] = ()  # all that is not as the suite says: KEY=VALUE each

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """Return the name of the model whose grid a combination belongs to, by the combination's."""
        return origins(self.grids)

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
    whole = _names(source)
    asked = _apply(source, profile, settings, seeds)
    mistakes = Mistakes(source)
    effective = {key: value for key, value in source.data.items() if key != "profiles"}
    grids = expand(source, mistakes)
    file = mistakes.parsed(SuiteFile, source.data, ())
    parts = Parts(source.data, mistakes, origins(grids), whole["tasks"])
    tasks, models = parts.configs("task", TaskConfig), parts.models()
    decoders, metrics = parts.configs("decoder", DecoderConfig), parts.configs("metric", MetricConfig)
    if file is None:
        raise mistakes.error()
    file = plainly(file, grids)
    suite = Suite(
        name=file.suite,
        profile=profile,
        title=file.title,
        source=file.source,
        tasks=tasks,
        models=models,
        decoders=decoders,
        metrics=metrics,
        certificates=parts.certificates(models),
        seeds=list(range(file.seeds)) if isinstance(file.seeds, int) else file.seeds,
        splits=file.splits,
        limits=file.limits,
        hardware={"default": file.hardware} if isinstance(file.hardware, Hardware) else file.hardware,
        skip=file.skip,
        tables=file.tables,
        figures=file.figures,
        claims=file.claims,
        choose=file.choose,
        grids=grids,
        published=load_published(folder / "references"),
        effective=effective,
        changes=[setting.partition("=")[0] for setting in settings],
        asked=asked,
    )
    if len(suite.label.encode()) > LONGEST_LABEL:
        mistakes.add(
            ("suite",), f"the name of a suite, with its profile, has {LONGEST_LABEL} letters at most. Shorten it."
        )
    _check_size(suite, mistakes)
    References(suite, source, mistakes, whole).check()
    if mistakes.found:
        raise mistakes.error()
    return suite


def _check_size(suite: Suite, mistakes: Mistakes) -> None:
    """Raise SuiteError for a suite of more cells than can be planned: they would fill the memory first."""
    axes = {
        "tasks": suite.tasks, "models": suite.models, "decoders": suite.decoders, "splits": suite.splits,
        "hardware": suite.hardware, "seeds": suite.seeds,
    }  # fmt: skip
    cells = prod(len(names) or 1 for names in axes.values())
    if cells > MOST_CELLS:
        longest = max(axes, key=lambda axis: len(axes[axis]))
        product = " x ".join(f"{len(names):,} {axis}" for axis, names in axes.items() if len(names) > 1)
        text = (
            f"a suite can have {MOST_CELLS:,} cells at most; this one has {product}. Ask for less, or part the suite."
        )
        mistakes.add((longest,), text)
        raise mistakes.error()


def _names(source: Located) -> dict[str, set[str]]:
    """Return what a suite names before anything is laid over it, and the settings that its grids vary."""
    copy = Located(source.path, dict(source.data))
    grids = expand(copy, Mistakes(copy))
    names = {kind: set(_section(copy.data, kind)) for kind in ("models", "decoders", "metrics", "tasks")}
    varied = {setting for grid in grids.values() for setting in grid.settings}
    splits, hardware = source.data.get("splits"), _section(source.data, "hardware")
    names["splits"] = {name for name in splits if isinstance(name, str)} if isinstance(splits, list) else {"test"}
    names["hardwares"] = {name for name, one in hardware.items() if isinstance(one, Mapping)} or {"default"}
    return {**names, "models": names["models"] | {*grids}, "grids": {*grids}, "settings": varied}


def _apply(source: Located, profile: str | None, settings: Sequence[str], seeds: int | None) -> list[str]:
    """Lay changes over a suite; return those that are not of a profile."""
    if profile is not None:
        profiles = source.data.get("profiles")
        known = list(profiles) if isinstance(profiles, dict) else []
        if profile not in known:
            mistakes = Mistakes(source)
            mistakes.add(["profiles"], f"no profile {profile!r}. {suggestion(profile, known)}")
            raise mistakes.error()
        if not isinstance(profiles[profile], dict):  # type: ignore[index]
            raise SuiteError(f"{source.place(['profiles', profile])}: a profile is a mapping of what it changes.")
        source.overlay(profiles[profile], ("profiles", profile))  # type: ignore[index]
    for setting in settings:
        keys, equals, value = setting.partition("=")
        if not equals or not keys.isprintable() or not all(way := _split(keys, source.data)):
            raise SuiteError(f"--set {_shown(setting)}: expected KEY.KEY=VALUE, such as --set models.lstm.hidden=64.")
        if isinstance(source.data.get(way[0]), list) and len(way) > 1:
            raise SuiteError(
                f"--set {_shown(setting)}: lists are set as a whole, such as --set 'splits=[valid, test]'."
            )
        origin = f"--set {_shown(keys)}"
        source.put(tuple(way), located.scalar(value, origin), origin)
    asked = [*settings]
    if seeds is not None:
        asked += (
            [] if source.data.get("seeds", 1) in (seeds, [*range(min(seeds, MOST_CELLS))]) else [f"seeds={seeds}"]
        )
        source.put(("seeds",), seeds, "--seeds")
    return asked


def _shown(text: str) -> str:
    """Return what somebody typed as it can be shown to them again."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    return cut if cut.isprintable() else repr(cut)


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
    origins: Mapping[str, str] = field(default_factory=dict)  # combinations to the models that have the grids
    tasks: Set[str] = frozenset()  # that the suite names before anything is laid over it

    def configs(self, kind: PartKind, base: type[C]) -> dict[str, C]:
        """Return the settings of every part of one kind that has no mistake."""
        section = _section(self.data, f"{kind}s")
        found = {name: self.config(kind, name, settings) for name, settings in section.items()}
        return {name: config for name, config in found.items() if isinstance(config, base)}

    def models(self) -> dict[str, Entry]:
        """Return every model with its training, which is the suite's with the model's own settings laid over."""
        entries = {}
        for name, config in self.configs("model", ModelConfig).items():
            settings = self.data["models"][name]
            others = {}
            for task, changes in self._changes(name, settings).items():
                below = {key: value for key, value in settings.items() if key != "by_task"}
                other = self.config("model", name, _merged(below, changes), ("by_task", task))
                if isinstance(other, ModelConfig):
                    others[task] = self._entry(name, other, _merged(below, changes), ("by_task", task))
            entries[name] = replace(self._entry(name, config, settings, ()), by_task=others)
        return entries

    def _entry(self, name: str, config: ModelConfig, settings: Mapping[str, Any], inside: tuple[str, ...]) -> Entry:
        merged = _merged(self.data.get("training") or {}, settings.get("training") or {})
        keys = ("models", self.origins.get(name, name), *inside)
        plan = self.mistakes.parsed(TrainingConfig, merged, (*keys, "training"))
        entry = Entry(config, plan or TrainingConfig())
        self._check_phases(entry, keys if "training" in settings else ())
        return entry

    def _changes(self, name: str, settings: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Return what a model changes for tasks, after noting what cannot be."""
        keys: tuple[str, ...] = ("models", self.origins.get(name, name), "by_task")
        given, found = settings.get("by_task") or {}, {}
        if not isinstance(given, Mapping):
            self.mistakes.add(
                keys, "`by_task` gives settings to names of tasks, such as `by_task: {wikitext-2: {hidden: 512}}`."
            )
            return {}
        tasks = [*_section(self.data, "tasks")]
        for task, changes in given.items():
            fixed = isinstance(changes, Mapping) and next(
                (key for key in ("name", "grid", "by_task") if key in changes), ""
            )
            if not isinstance(changes, Mapping):
                self.mistakes.add([*keys, task], "what differs on a task is a mapping of settings.")
            elif fixed:
                self.mistakes.add([*keys, task, fixed], f"a model has one `{fixed}` for all tasks.")
            elif task in tasks:
                found[task] = changes
            elif task not in self.tasks:
                self.mistakes.add(
                    [*keys, task], f"no task of this suite is called {task!r}. {suggestion(task, tasks)}"
                )
        return found

    def certificates(self, models: Mapping[str, Entry]) -> dict[str, CertificateConfig]:
        """Return the certificates that the suite names, and those that its models never go without."""
        found = self.configs("certificate", CertificateConfig)
        named = {config.name for config in found.values()}
        carried = {name for entry in models.values() for one in entry.all for name in one.config.certificates}
        for name in sorted(carried - named):
            config = self.config("certificate", name, {"name": name})
            if isinstance(config, CertificateConfig):
                found[name] = config
        return found

    def _check_phases(self, entry: Entry, own: Sequence[str]) -> None:
        for number, phase in enumerate(entry.training.phases):
            for key in phase.model_extra or {}:
                if key not in entry.config.by_phase:
                    known = [*Phase.model_fields, *sorted(entry.config.by_phase)]
                    text = f"a phase of {entry.config.name!r} cannot set {key!r}. {suggestion(key, known)}"
                    self.mistakes.add([*own, "training", "phases", number, key], text)

    def config(self, kind: PartKind, name: str, settings: Any, inside: tuple[str, ...] = ()) -> Config | None:
        """Return the parsed settings of one part, or None after noting what is wrong."""
        origin = self.origins.get(name, name) if kind == "model" else name
        keys = (f"{kind}s", origin, *inside)
        if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
            self.mistakes.add(keys, f"{kind} {origin!r} must say which part it is, such as `{{name: ...}}`.")
            return None
        try:
            found = part(kind, settings["name"])
        except SuiteError as error:
            self.mistakes.add([*keys, "name"], str(error))
            return None
        schema = found.config
        aside = ("name", "training", "by_task") if kind == "model" else ("name",)
        own = {key: value for key, value in settings.items() if key not in aside}
        given = self.data.get("limits")
        limits = {**Limits().model_dump(), **(given if isinstance(given, Mapping) else {})}
        for setting, limit in schema.limits.items():
            if own.get(setting) is None:
                own[setting] = limits[limit]
        config = self.mistakes.parsed(schema, own, keys, name if name != origin else "")
        if config is not None and (command := remedy(found, config)):
            text = f"{kind} {schema.name!r} needs what is not installed: {', '.join(sorted(config.extras()))} of "
            self.mistakes.add([*keys, "name"], f"{text}{found.distribution}. Install it by: {command}")
        return config


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping of the suite, or nothing where something else stands in its place."""
    section = data.get(name)
    return section if isinstance(section, Mapping) else {}


def _merged(below: Any, above: Any) -> Any:
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
