"""The registry of installed parts, by kind and name; found through entry points, without torch."""

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
KINDS: tuple[PartKind, ...] = get_args(PartKind)  # those of the core; see `kinds`
#: Those of suites, whose business it is neither where stages are performed nor who hears of them.
IN_SUITES = tuple(kind for kind in KINDS if kind not in ("executor", "observer"))


@dataclass(frozen=True)
class Part:
    """An installed part, and the distribution that provides it."""

    kind: str
    config: type[Config]
    plugin: str  # the entry point's name
    distribution: str
    version: str
    package: str  # the top-level package whose code it is

    @property
    def root(self) -> str:
        """Return where its Config is defined, as `module:Class`."""
        return f"{self.config.__module__}:{self.config.__qualname__}"

    @property
    def whole_name(self) -> str:
        """Return its name with its distribution, such as `bench-news/transformer`, which no other part has."""
        return f"{self.distribution}/{self.config.name}"

    def is_called(self, name: str) -> bool:
        """Return whether a name is its own, alone or with its distribution."""
        owner, _, own = name.rpartition("/")
        alone = name == self.config.name
        return alone or (own == self.config.name and canonicalize_name(owner) == canonicalize_name(self.distribution))


@dataclass
class Installed:
    """The plugins found: those that work, and those that could not be loaded, with the reason."""

    manager: PluginManager = field(default_factory=lambda: PluginManager("bench"))
    origins: dict[str, tuple[str, str]] = field(default_factory=dict)  # plugin -> distribution, version
    broken: dict[str, str] = field(default_factory=dict)  # distribution -> reason
    defined: list[Any] = field(default_factory=list)  # the hookspecs of plugins
    core: str = field(default_factory=lambda: version("bench-core"))

    def define(self, module: ModuleType) -> None:
        """Add the hooks that a plugin defines for others: the functions marked as `hookspec` in its `hookspecs`."""
        hookspecs = getattr(module, "hookspecs", None)
        if hookspecs is not None and hookspecs not in self.defined:
            self.manager.add_hookspecs(hookspecs)
            self.defined.append(hookspecs)

    def add(self, plugin: str, module: ModuleType, distribution: str = "", version: str = "") -> None:
        """Register the module of a plugin; raise PluginError if it does not fit this core or lacks another."""
        needed = requirements(distribution) if distribution else None
        _check_version(module, distribution, needed, self.core)
        try:
            self.manager.register(module, plugin)
            for caller in self.manager.get_hookcallers(module) or ():
                for own in (one for one in caller.get_hookimpls() if one.plugin is module):
                    if caller.spec is None and not own.optionalhook:
                        raise PluginError(self._undefined(caller.name, module, needed or ()))
                    if caller.spec is not None and not caller.spec.argnames:
                        _check_configs(cast("Iterable[type[Config]]", own.function()), caller.name, module)
        except Exception:
            if self.manager.get_plugin(plugin) is module:
                self.manager.unregister(name=plugin)
            raise
        self.origins[plugin] = distribution or module.__name__.partition(".")[0], version

    @contextmanager
    def recording(self, entry: EntryPoint) -> Iterator[None]:
        """Record a distribution as broken if its plugin fails or exits; the others go on."""
        try:
            yield
        except (Exception, SystemExit) as error:
            self.broken[entry_points.origin(entry)[0]] = f"{type(error).__name__}: {error}"

    def _undefined(self, hook: str, module: ModuleType, needed: Iterable[str]) -> str:
        known = [name for name, caller in vars(self.manager.hook).items() if caller.has_spec()]
        broken = [*map(canonicalize_name, self.broken)]
        absent = [one for one in needed if requirements(one) is None or one in broken]
        return (
            f"{module.__name__} implements the hook {hook!r}, which no loaded plugin defines. "
            f"{suggestion(hook, known)} Install {' and '.join(absent) or 'the plugin that defines it'}, "
            "or write `@hookimpl(optionalhook=True)` if yours works without."
        )


def _check_configs(configs: Iterable[type[Config]], hook: str, module: ModuleType) -> None:
    """Raise PluginError for a Config that lacks a declaration or a method, and for two Configs of one name."""
    names = set[str]()
    for config in configs:
        declarations = {*config.__class_vars__} - {"target"}  # a Config may override `load` instead
        missing = sorted({one for one in declarations if not hasattr(config, one)} | config.__abstractmethods__)
        if missing:
            raise PluginError(f"{config.__module__}.{config.__qualname__} lacks {', '.join(missing)}. Add it there.")
        if config.name in names:
            what = hook.removeprefix("bench_")
            raise PluginError(f"{module.__name__} provides two {what} called {config.name!r}. Rename one of them.")
        names.add(config.name)


def _check_version(module: ModuleType, distribution: str, needed: Mapping[str, Any] | None, here: str) -> None:
    """Raise PluginError unless a plugin works with this core, by its `supports` or by what its distribution needs."""
    core = (needed or {}).get("bench-core")
    if hasattr(module, "supports"):
        first, last = module.supports
        fits, said = first <= hooks.API <= last, f"{module.__name__} says `supports = ({first}, {last})`"
    elif core is None:
        fits, said = needed is None, f"{distribution} declares no dependency such as `bench-core>={here}`"
    else:
        fits, said = core.specifier.contains(here, prereleases=True), f"{distribution} requires {core}"
    if not fits:
        have = f"bench-core {here}, with version {hooks.API} of the interfaces"
        raise PluginError(f"{said}; this is {have}. Install releases that go together, or correct what it declares.")


@cache
def installed() -> Installed:
    """Load the light module of every plugin; record those that fail as broken, with the reason."""
    found, modules = Installed(), []
    found.manager.add_hookspecs(hooks)
    for entry in entry_points.declared(entry_points.PARTS):  # all hooks are defined before any is implemented
        with found.recording(entry):
            modules.append((entry, entry.load()))
            found.define(modules[-1][1])
    for entry, module in modules:
        with found.recording(entry):
            found.add(entry.name, module, *entry_points.origin(entry))
    return found


def hook() -> HookRelay:
    """Return the hooks of all working plugins."""
    return installed().manager.hook


@contextmanager
def extra(*modules: ModuleType) -> Iterator[None]:
    """Register plugins without a distribution, such as those of tests, inside a `with` block."""
    found = installed()
    for module in modules:
        found.define(module)
    for module in modules:
        found.add(module.__name__, module)
    _forget_caches()
    try:
        yield
    finally:
        for module in modules:
            found.manager.unregister(module)
            del found.origins[module.__name__]
        _forget_caches()


def _forget_caches() -> None:
    parts.cache_clear()
    sections.cache_clear()
    stage_kinds.cache_clear()


@cache
def stage_kinds() -> Mapping[str, StageKind]:
    """Return all kinds of stages by name, in the order in which a cell needs them."""
    known = [*CORE]
    for several in hook().bench_stage_kinds(known=[one.name for one in known]):
        known += several
    if twice := [name for name, number in Counter(one.name for one in known).items() if number > 1]:
        raise PluginError(f"two plugins add stages of the kind {twice[0]!r}. Uninstall one, or rename the kind.")
    known.sort(key=lambda one: (not one.first, not one.gives_weights, not one.joint))
    return {one.name: one for one in known}


def stage_kind(name: str) -> StageKind:
    """Return a kind of stage; raise PluginError if no installed distribution performs it."""
    known = stage_kinds()
    if name not in known:
        raise PluginError(
            f"nothing installed performs stages of the kind {name!r}. {suggestion(name, [*known])} "
            "Install the plugin that adds this kind."
        )
    return known[name]


@cache
def sections() -> Sequence[Section]:
    """Return the sections of suites that plugins add."""
    return [one for several in hook().bench_sections(api=hooks.API) for one in several]


def training_kind(joint: bool) -> str:
    """Return the kind of stages that train, one model or several seeds as one.

    Raises PluginError if none is installed.
    """
    for kind in stage_kinds().values():
        if kind.trains and kind.joint is joint:
            return kind.name
    raise PluginError(f"models are trained by {source(TRAINING)}, which is not installed.")


def kinds() -> list[str]:
    """Return the kinds of parts: those of the core, and those for which plugins define hooks without arguments."""
    hooks = (name for name, caller in vars(hook()).items() if caller.has_spec() and not caller.spec.argnames)
    return [*KINDS, *sorted({name.removeprefix("bench_")[:-1] for name in hooks} - {*KINDS})]


@cache
def parts(kind: str) -> dict[str, Part]:
    """Return every installed part of a kind, such as "model", by name, with its distribution if several share it.

    Raises PluginError if one distribution provides a name twice.
    """
    if kind not in kinds():
        raise SuiteError(f"there is no such kind of part as {kind!r}. {suggestion(kind, kinds())}")
    found: dict[str, Part] = {}
    for implementation in getattr(installed().manager.hook, f"bench_{kind}s").get_hookimpls():
        distribution, version = installed().origins[implementation.plugin_name]
        package = implementation.function.__module__.partition(".")[0]
        for config in cast("Iterable[type[Config]]", implementation.function()):
            part = Part(kind, config, implementation.plugin_name, distribution, version, package)
            if found.setdefault(part.whole_name, part) is not part:
                raise PluginError(f"{distribution} provides two {kind}s called {config.name!r}. Rename one of them.")
    shared = Counter(one.config.name for one in found.values())
    plain = {one.config.name if shared[one.config.name] == 1 else name: one for name, one in found.items()}
    return dict(sorted(plain.items()))


def part(kind: str, name: str) -> Part:
    """Return the part of a kind, such as "model" or "processor", by name: `bench-news/transformer` or `transformer`.

    Raises SuiteError with the nearest names, or with all parts that share the name.
    """
    known = parts(kind)
    called = [known[name]] if name in known else [one for one in known.values() if one.is_called(name)]
    if len(called) > 1:
        called = [one for one in called if one.root in _meant.get()] or called
    if len(called) > 1:
        names = [repr(one.whole_name) for one in called]
        owners = " and ".join(one.distribution for one in called)
        raise SuiteError(f"{kind} {name!r} is provided by {owners}. Write {' or '.join(names)}.")
    if not called:
        raise SuiteError(_lack(kind, name, known))
    return called[0]


_meant: ContextVar[frozenset[str]] = ContextVar("meant", default=frozenset())


@contextmanager
def meaning(roots: Iterable[str]) -> Iterator[None]:
    """Have names that several parts share mean those of these `Part.root`s, as recorded settings have names alone."""
    token = _meant.set(frozenset(roots))
    try:
        yield
    finally:
        _meant.reset(token)


def name_here(kind: str, config: type[Config]) -> str:
    """Return the name by which `part` finds a Config: with its distribution if others share it."""
    return next((name for name, one in parts(kind).items() if one.config is config), config.name)


def name_beside(kind: str, name: str, config: type[Config] | Config) -> str:
    """Return the name by which `part` finds what a Config refers to: of several, the part beside it."""
    package = config.__module__.partition(".")[0]
    named = [(one.package, key) for key, one in parts(kind).items() if one.config.name == name]
    return dict(named).get(package, name)


def _lack(kind: str, name: str, known: Mapping[str, Part]) -> str:
    """Return why there is no part of a kind with this name."""
    owner, _, own = name.rpartition("/")
    others = [one.whole_name for one in known.values() if one.config.name == own]
    if not owner:
        return f"no {kind} is called {name!r}. {suggestion(name, list(known), 'Installed')}{_losses()}"
    advice = f" Or name {' or '.join(map(repr, others))}, which is installed." if others else ""
    owners = {canonicalize_name(one): reason for one, reason in installed().broken.items()}
    if reason := owners.get(canonicalize_name(owner)):
        return f"{kind} {name!r} is of {owner}, which cannot be loaded: {reason}.{advice}"
    here = {canonicalize_name(one) for one, _ in installed().origins.values()}
    if canonicalize_name(owner) not in here and entry_points.installed_version(owner) == "not installed":
        return f"{kind} {name!r} is of the distribution {owner}, which is not installed. Install {owner}.{advice}"
    its = [one.whole_name for one in known.values() if one.is_called(f"{owner}/{one.config.name}")]
    return f"{owner} provides no {kind} called {own!r}. {suggestion(name, its, 'It provides')}{advice}"


def configured(kind: str, settings: Mapping[str, Any]) -> Any:
    """Return the Config of a part from its settings as JSON data, including its name."""
    schema = part(kind, settings["name"]).config
    return schema.model_validate({key: value for key, value in settings.items() if key != "name"})


def suggestion(name: str, known: list[str], what: str = "Known") -> str:
    """Return a question with the most similar known names, or else all of them."""
    from placed_settings import suggestion as found  # not where nothing is wrong

    return found(name, known, what)


def _losses() -> str:
    broken = installed().broken
    return f" (Not loaded: {', '.join(sorted(broken))}; see `bench list`.)" if broken else ""
