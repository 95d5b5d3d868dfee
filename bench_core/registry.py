"""The registry of installed parts by kind and name, loaded from entry points without torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, version
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from packaging.utils import canonicalize_name
from pluggy import HookRelay, PluginManager

from bench_core import entry_points, hooks
from bench_core.entry_points import requirements
from bench_core.errors import PluginError, SuiteError
from bench_core.optional import TRAINING, source
from bench_core.sections import Section
from bench_core.stage_kinds import CORE, StageKind

if TYPE_CHECKING:
    from bench_core.config import Config

PartKind: TypeAlias = Literal["task", "model", "decoder", "metric", "probe", "executor", "observer"]
KINDS: tuple[PartKind, ...] = get_args(PartKind)  # part kinds of the core; see `kinds`
#: Part kinds that suites can name, unlike executors and observers.
IN_SUITES = tuple(kind for kind in KINDS if kind not in ("executor", "observer"))


@dataclass(frozen=True)
class Part:
    """An installed part and the distribution that provides it."""

    kind: str
    config: type[Config]
    plugin: str  # entry point name
    distribution: str
    version: str
    package: str  # top-level package of its code

    @property
    def root(self) -> str:
        """Return the location of its Config, as `module:Class`."""
        return f"{self.config.__module__}:{self.config.__qualname__}"

    @property
    def whole_name(self) -> str:
        """Return its unique name with its distribution, such as `bench-news/transformer`."""
        return f"{self.distribution}/{self.config.name}"

    def is_called(self, name: str) -> bool:
        """Return whether a name, with or without a distribution, refers to this part."""
        owner, _, short = name.rpartition("/")
        is_owner = canonicalize_name(owner) == canonicalize_name(self.distribution)
        return name == self.config.name or (short == self.config.name and is_owner)


@dataclass
class Installed:
    """The installed plugins: loaded plugins, and broken plugins with reasons."""

    manager: PluginManager = field(default_factory=lambda: PluginManager("bench"))
    origins: dict[str, tuple[str, str]] = field(default_factory=dict)  # plugin -> distribution, version
    broken: dict[str, str] = field(default_factory=dict)  # distribution -> reason
    defined: list[Any] = field(default_factory=list)  # hookspecs of plugins
    core: str = field(default_factory=lambda: version("bench-core"))

    def define(self, module: ModuleType) -> None:
        """Add the hooks that a plugin defines for others: functions marked with `hookspec` in its `hookspecs`."""
        hookspecs = getattr(module, "hookspecs", None)
        if hookspecs is not None and hookspecs not in self.defined:
            self.manager.add_hookspecs(hookspecs)
            self.defined.append(hookspecs)

    def add(self, plugin: str, module: ModuleType, distribution: str = "", version: str = "") -> None:
        """Register the module of a plugin; raise PluginError if it is incompatible or its hooks are unknown."""
        needed = requirements(distribution) if distribution else None
        _check_version(module, distribution, needed, self.core)
        try:
            self.manager.register(module, plugin)
            for caller in self.manager.get_hookcallers(module) or ():
                for implementation in (impl for impl in caller.get_hookimpls() if impl.plugin is module):
                    if caller.spec is None and not implementation.optionalhook:
                        raise PluginError(self._undefined_hook(caller.name, module, needed or ()))
                    if caller.spec is not None and not caller.spec.argnames:
                        _check_configs(cast("Iterable[type[Config]]", implementation.function()), caller.name, module)
        except Exception:
            if self.manager.get_plugin(plugin) is module:
                self.manager.unregister(name=plugin)
            raise
        self.origins[plugin] = distribution or module.__name__.partition(".")[0], version

    @contextmanager
    def recording(self, entry: EntryPoint) -> Iterator[None]:
        """Record a distribution as broken if its plugin raises an error or exits, and continue after the block."""
        try:
            yield
        except (Exception, SystemExit) as error:
            self.broken[entry_points.origin(entry)[0]] = f"{type(error).__name__}: {error}"

    def _undefined_hook(self, hook: str, module: ModuleType, needed: Iterable[str]) -> str:
        hooks = [name for name, caller in vars(self.manager.hook).items() if caller.has_spec()]
        broken = [*map(canonicalize_name, self.broken)]
        absent = [name for name in needed if requirements(name) is None or name in broken]
        return (
            f"{module.__name__} implements the hook {hook!r}, which no loaded plugin defines. "
            f"{suggestion(hook, hooks)} Install {' and '.join(absent) or 'the plugin that defines it'}, "
            "or use `@hookimpl(optionalhook=True)` if your plugin works without it."
        )


def _check_configs(configs: Iterable[type[Config]], hook: str, module: ModuleType) -> None:
    """Raise PluginError for a Config that lacks a declaration or method, and for Configs with the same name."""
    names = set[str]()
    for config in configs:
        declarations = {*config.__class_vars__} - {"target"}  # a Config may override `load` instead
        missing = sorted({name for name in declarations if not hasattr(config, name)} | config.__abstractmethods__)
        if missing:
            raise PluginError(f"{config.__module__}.{config.__qualname__} lacks {', '.join(missing)}. Add it.")
        if config.name in names:
            what = hook.removeprefix("bench_")
            raise PluginError(f"{module.__name__} provides two {what} called {config.name!r}. Rename one of them.")
        names.add(config.name)


def _check_version(module: ModuleType, distribution: str, needed: Mapping[str, Any] | None, here: str) -> None:
    """Raise PluginError unless a plugin's `supports`, or its distribution's requirements, allow this core."""
    core = (needed or {}).get("bench-core")
    if hasattr(module, "supports"):
        first, last = module.supports
        fits, claim = first <= hooks.API <= last, f"{module.__name__} declares `supports = ({first}, {last})`"
    elif core is None:
        fits, claim = needed is None, f"{distribution} declares no dependency such as `bench-core>={here}`"
    else:
        fits, claim = core.specifier.contains(here, prereleases=True), f"{distribution} requires {core}"
    if not fits:
        have = f"bench-core {here}, with interface version {hooks.API}"
        raise PluginError(f"{claim}; this is {have}. Install compatible releases, or correct the declaration.")


@cache
def installed() -> Installed:
    """Load the entry point of every plugin; record failing plugins as broken, with the reason."""
    plugins, modules = Installed(), []
    plugins.manager.add_hookspecs(hooks)
    for entry in entry_points.declared(entry_points.PARTS):  # all hooks are defined before any is implemented
        with plugins.recording(entry):
            modules.append((entry, entry.load()))
            plugins.define(modules[-1][1])
    for entry, module in modules:
        with plugins.recording(entry):
            plugins.add(entry.name, module, *entry_points.origin(entry))
    return plugins


def hook() -> HookRelay:
    """Return the hooks of all loaded plugins."""
    return installed().manager.hook


@contextmanager
def extra(*modules: ModuleType) -> Iterator[None]:
    """Register plugins without a distribution, such as plugins of tests, inside a `with` block."""
    plugins = installed()
    for module in modules:
        plugins.define(module)
    for module in modules:
        plugins.add(module.__name__, module)
    _forget_caches()
    try:
        yield
    finally:
        for module in modules:
            plugins.manager.unregister(module)
            del plugins.origins[module.__name__]
        _forget_caches()


def _forget_caches() -> None:
    parts.cache_clear()
    sections.cache_clear()
    stage_kinds.cache_clear()


@cache
def stage_kinds() -> Mapping[str, StageKind]:
    """Return all stage kinds by name, in the order in which a cell needs them."""
    all_kinds = [*CORE]
    for added in hook().bench_stage_kinds(known=[kind.name for kind in all_kinds]):
        all_kinds += added
    if duplicates := [name for name, number in Counter(kind.name for kind in all_kinds).items() if number > 1]:
        raise PluginError(f"two plugins add the stage kind {duplicates[0]!r}. Uninstall one, or rename the kind.")
    all_kinds.sort(key=lambda kind: (not kind.first, not kind.gives_weights, not kind.joint))
    return {kind.name: kind for kind in all_kinds}


def stage_kind(name: str) -> StageKind:
    """Return a stage kind by name; raise PluginError if no installed distribution provides it."""
    by_name = stage_kinds()
    if name not in by_name:
        raise PluginError(
            f"no installed distribution provides the stage kind {name!r}. {suggestion(name, [*by_name])} "
            "Install the plugin that adds this kind."
        )
    return by_name[name]


@cache
def sections() -> Sequence[Section]:
    """Return the suite sections that plugins add."""
    return [section for added in hook().bench_sections(api=hooks.API) for section in added]


def training_kind(joint: bool) -> str:
    """Return the name of the stage kind that trains a model or, if `joint`, several seeds at once.

    Raises PluginError if no installed distribution provides it.
    """
    for kind in stage_kinds().values():
        if kind.trains and kind.joint is joint:
            return kind.name
    raise PluginError(f"training requires {source(TRAINING)}, which is not installed.")


def kinds() -> list[str]:
    """Return the part kinds of the core, and of plugins that define hooks without arguments."""
    hooks = (name for name, caller in vars(hook()).items() if caller.has_spec() and not caller.spec.argnames)
    return [*KINDS, *sorted({name.removeprefix("bench_")[:-1] for name in hooks} - {*KINDS})]


@cache
def parts(kind: str) -> dict[str, Part]:
    """Return all installed parts of a kind, such as "model", by name; ambiguous names include the distribution.

    Raises PluginError if a distribution provides a name twice.
    """
    if kind not in kinds():
        raise SuiteError(f"unknown part kind {kind!r}. {suggestion(kind, kinds())}")
    by_name: dict[str, Part] = {}
    for implementation in getattr(installed().manager.hook, f"bench_{kind}s").get_hookimpls():
        distribution, version = installed().origins[implementation.plugin_name]
        package = implementation.function.__module__.partition(".")[0]
        for config in cast("Iterable[type[Config]]", implementation.function()):
            part = Part(kind, config, implementation.plugin_name, distribution, version, package)
            if by_name.setdefault(part.whole_name, part) is not part:
                raise PluginError(f"{distribution} provides two {kind}s called {config.name!r}. Rename one of them.")
    shared = Counter(part.config.name for part in by_name.values())
    short = {part.config.name if shared[part.config.name] == 1 else name: part for name, part in by_name.items()}
    return dict(sorted(short.items()))


def part(kind: str, name: str) -> Part:
    """Return the part of a kind, such as "model" or "processor", by name: `bench-news/transformer` or `transformer`.

    Raises SuiteError with the most similar names, or with all parts that share the name.
    """
    by_name = parts(kind)
    matches = [by_name[name]] if name in by_name else [part for part in by_name.values() if part.is_called(name)]
    if len(matches) > 1:
        matches = [part for part in matches if part.root in _preferred.get()] or matches
    if len(matches) > 1:
        names = [repr(part.whole_name) for part in matches]
        owners = " and ".join(part.distribution for part in matches)
        raise SuiteError(f"{kind} {name!r} is provided by {owners}. Write {' or '.join(names)}.")
    if not matches:
        raise SuiteError(_lack(kind, name, by_name))
    return matches[0]


_preferred: ContextVar[frozenset[str]] = ContextVar("preferred", default=frozenset())


@contextmanager
def meaning(roots: Iterable[str]) -> Iterator[None]:
    """Resolve ambiguous names to parts with these `Part.root`s, because recorded settings lack distributions."""
    token = _preferred.set(frozenset(roots))
    try:
        yield
    finally:
        _preferred.reset(token)


def name_here(kind: str, config: type[Config]) -> str:
    """Return the name by which `part` finds a Config, including its distribution if the name is ambiguous."""
    return next((name for name, part in parts(kind).items() if part.config is config), config.name)


def name_beside(kind: str, name: str, config: type[Config] | Config) -> str:
    """Return the name by which `part` finds a part that a Config refers to, preferring the Config's own package."""
    package = config.__module__.partition(".")[0]
    named = [(part.package, key) for key, part in parts(kind).items() if part.config.name == name]
    return dict(named).get(package, name)


def _lack(kind: str, name: str, by_name: Mapping[str, Part]) -> str:
    """Return why no part of a kind has this name."""
    owner, _, short = name.rpartition("/")
    others = [part.whole_name for part in by_name.values() if part.config.name == short]
    if not owner:
        broken = ", ".join(sorted(installed().broken))
        losses = f" (Not loaded: {broken}; see `bench list`.)" if broken else ""
        return f"no {kind} is called {name!r}. {suggestion(name, list(by_name), 'Installed')}{losses}"
    advice = f" Or use {' or '.join(map(repr, others))}, which is installed." if others else ""
    owners = {canonicalize_name(distribution): reason for distribution, reason in installed().broken.items()}
    if reason := owners.get(canonicalize_name(owner)):
        return f"{kind} {name!r} belongs to {owner}, which cannot be loaded: {reason}.{advice}"
    here = {canonicalize_name(distribution) for distribution, _ in installed().origins.values()}
    if canonicalize_name(owner) not in here and entry_points.installed_version(owner) == "not installed":
        lack = f"{kind} {name!r} belongs to the distribution {owner}, which is not installed."
        return f"{lack} Install {owner}.{advice}"
    its = [part.whole_name for part in by_name.values() if part.is_called(f"{owner}/{part.config.name}")]
    return f"{owner} provides no {kind} called {short!r}. {suggestion(name, its, 'It provides')}{advice}"


def configured(kind: str, settings: Mapping[str, Any]) -> Any:
    """Return the Config of a part from its settings as JSON data, which include its name."""
    schema = part(kind, settings["name"]).config
    return schema.model_validate({key: value for key, value in settings.items() if key != "name"})


def suggestion(name: str, known: list[str], what: str = "Known") -> str:
    """Return a question with the most similar known names or, if no name is similar, a list of all known names."""
    from placed_settings import suggestion as suggest  # imported only in case of an error

    return suggest(name, known, what)
