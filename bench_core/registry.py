"""The registry of installed parts, by kind and name; found through entry points, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from pluggy import HookRelay, PluginManager, PluginValidationError

from bench_core import entry_points, hooks
from bench_core.errors import PluginError, SuiteError

if TYPE_CHECKING:
    from bench_core.config import Config

PartKind: TypeAlias = Literal["task", "model", "decoder", "metric", "probe", "executor"]
KINDS: tuple[PartKind, ...] = get_args(PartKind)
IN_SUITES = tuple(kind for kind in KINDS if kind != "executor")  # where stages are performed is no suite's business


@dataclass(frozen=True)
class Part:
    """An installed part, and the distribution that provides it."""

    kind: PartKind
    config: type[Config]
    plugin: str  # the entry point's name
    distribution: str
    version: str
    package: str  # the top-level package whose code it is


@dataclass
class Installed:
    """The plugins found: those that work, and those that could not be loaded, with the reason."""

    manager: PluginManager = field(default_factory=lambda: PluginManager("bench"))
    origins: dict[str, tuple[str, str]] = field(default_factory=dict)  # plugin -> distribution, version
    broken: dict[str, str] = field(default_factory=dict)  # distribution -> reason

    def add(self, plugin: str, module: ModuleType, distribution: str = "", version: str = "") -> None:
        """Register the module of a plugin; raise PluginError if it is incompatible with this core."""
        first, last = getattr(module, "supports", (0, 0))
        if not first <= hooks.API <= last:
            raise PluginError(
                f"{module.__name__} says `supports = ({first}, {last})`; this core has version {hooks.API} of "
                "the interfaces. Install releases that go together."
                if last
                else f"{module.__name__} does not say which versions of the interfaces it supports, "
                f"such as `supports = ({hooks.API}, {hooks.API})`."
            )
        self.manager.register(module, plugin)
        try:
            self.manager.check_pending()
            for kind in KINDS:
                list(getattr(module, f"bench_{kind}s", list)())
        except PluginValidationError as error:
            self.manager.unregister(module)
            raise PluginError(f"{module.__name__} implements a hook that the core does not have: {error}.") from None
        except Exception:
            self.manager.unregister(module)
            raise
        self.origins[plugin] = distribution or module.__name__.partition(".")[0], version


@cache
def installed() -> Installed:
    """Load the light module of every plugin; record those that fail as broken, with the reason."""
    found = Installed()
    found.manager.add_hookspecs(hooks)
    for entry in entry_points.declared(entry_points.PARTS):
        distribution, version = entry_points.origin(entry)
        try:
            found.add(entry.name, entry.load(), distribution, version)
        except Exception as error:  # whatever a plugin does while it is imported, the others go on
            found.broken[distribution] = f"{type(error).__name__}: {error}"
    return found


def hook() -> HookRelay:
    """Return the hooks of all working plugins."""
    return installed().manager.hook


@contextmanager
def extra(*modules: ModuleType) -> Iterator[None]:
    """Register plugins without a distribution, such as those of tests, inside a `with` block."""
    found = installed()
    for module in modules:
        found.add(module.__name__, module)
    parts.cache_clear()
    try:
        yield
    finally:
        for module in modules:
            found.manager.unregister(module)
            del found.origins[module.__name__]
        parts.cache_clear()


@cache
def parts(kind: PartKind) -> dict[str, Part]:
    """Return every installed part of one kind, by name; raise PluginError if two distributions claim a name."""
    found: dict[str, Part] = {}
    clashes = []
    for implementation in getattr(installed().manager.hook, f"bench_{kind}s").get_hookimpls():
        distribution, version = installed().origins[implementation.plugin_name]
        package = implementation.function.__module__.partition(".")[0]
        for config in cast("Iterable[type[Config]]", implementation.function()):
            part = Part(kind, config, implementation.plugin_name, distribution, version, package)
            other = found.setdefault(config.name, part)
            if other is not part:
                clashes.append(f"{kind} {config.name!r} is provided by both {other.distribution} and {distribution}")
    if clashes:
        raise PluginError(f"{'; '.join(sorted(clashes))}. Uninstall or rename one of them.")
    return dict(sorted(found.items()))


def part(kind: PartKind, name: str) -> Part:
    """Return the part called `name`; raise SuiteError with the nearest names if there is none."""
    known = parts(kind)
    if name not in known:
        raise SuiteError(f"no {kind} is called {name!r}. {suggestion(name, list(known), 'Installed')}{_losses()}")
    return known[name]


def configured(kind: PartKind, settings: Mapping[str, Any]) -> Any:
    """Return the Config of a part from its settings as JSON data, including its name."""
    schema = part(kind, settings["name"]).config
    return schema.model_validate({key: value for key, value in settings.items() if key != "name"})


def suggestion(name: str, known: list[str], what: str = "Known") -> str:
    """Return a question with the most similar known names, or else all of them."""
    near = get_close_matches(name, known, n=3)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else f"{what}: {', '.join(known) or 'none'}."


def _losses() -> str:
    broken = installed().broken
    return f" (Not loaded: {', '.join(sorted(broken))}; see `bench list`.)" if broken else ""
