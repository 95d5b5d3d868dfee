"""The class that a Config names, checked against what the Config declares."""

import sys
from collections.abc import Iterable
from typing import Any

from bench_core.config import Config, ModelConfig
from bench_core.errors import Fault, PluginError
from bench_core.model import Scorer


def part_class(config: Config) -> type[Any]:
    """Import and return the class that a Config builds.

    Raises PluginError if there is no such class, if methods are missing that its bases leave to it, or if it is no
    subclass of a capability that the Config of a model declares.
    """
    kind: Any = _loaded(config)
    if isinstance(kind, type):
        missing = sorted(getattr(kind, "__abstractmethods__", ()))
        abstract: Fault = f"{_lack(kind, missing)} Write what its base classes leave to it."
        problems = [abstract] if missing else []
        if isinstance(config, ModelConfig):
            problems += _undeserved(config, kind)
        if problems:
            raise PluginError(f"{_of(type(config))}: {' '.join(problems)}")
    return kind  # type: ignore[no-any-return]


def _loaded(config: Config) -> Any:
    """Return what a Config loads; errors inside of the module that it imports propagate."""
    module, _, attribute = getattr(config, "target", "").partition(":")  # a Config may override `load` instead
    try:
        return config.load()
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        found: Fault = f"there is no module {error.name}"
    except AttributeError:
        if module not in sys.modules or hasattr(sys.modules[module], attribute):
            raise
        lacks: Fault = f"{module} has no {attribute}"
        found = lacks
    raise PluginError(
        f"{_of(type(config))}: its target is {config.target!r}, and {found}. "
        'Add the class, or declare another `target = "module:Class"`.'
    )


def _undeserved(config: ModelConfig, kind: type) -> Iterable[Fault]:
    """Yield what the Config declares and the class does not give, a sentence each."""
    for capability in sorted(config.capabilities, key=lambda one: one.__name__):
        if not issubclass(kind, capability):
            name = capability.__name__
            missing = sorted(one for one in capability.__abstractmethods__ if not callable(getattr(kind, one, None)))
            inherits: Fault = f"{_of(kind)} has its methods, but does not inherit it."
            lacks = _lack(kind, missing) if missing else inherits
            yield f"it declares the capability {name}; {lacks} Inherit {name} there, or correct `capabilities` here."
    if config.likelihoods and not issubclass(kind, Scorer):
        yield f"it declares likelihoods, and {_of(kind)} is no Scorer. Inherit Scorer there."
    if issubclass(kind, Scorer) and not config.likelihoods:
        yield f"it declares no likelihoods, and {_of(kind)} is a Scorer. Declare `likelihoods`."


def _lack(kind: type, methods: list[str]) -> Fault:
    return f"{_of(kind)} lacks the method{'' if len(methods) == 1 else 's'} {', '.join(map('`{}`'.format, methods))}."


def _of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
