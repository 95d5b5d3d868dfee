"""The class that a Config builds, checked against the Config's declarations."""

import sys
from collections.abc import Iterable
from typing import Any

from bench_core.config import Config, ModelConfig
from bench_core.errors import Fault, PluginError
from bench_core.model import Scorer


def part_class(config: Config) -> type[Any]:
    """Import and return the class that a Config builds.

    Raises PluginError if the class does not exist, lacks abstract methods, or does not inherit a capability declared
    by a model's Config.
    """
    kind: Any = _loaded(config)
    if isinstance(kind, type):
        missing = sorted(getattr(kind, "__abstractmethods__", ()))
        abstract: Fault = f"{_lack(kind, missing)} Implement all abstract methods of its base classes."
        problems = [abstract] if missing else []
        if isinstance(config, ModelConfig):
            problems += _contradictions(config, kind)
        if problems:
            raise PluginError(f"{_of(type(config))}: {' '.join(problems)}")
    return kind  # type: ignore[no-any-return]


def _loaded(config: Config) -> Any:
    """Return the object that a Config loads; errors raised inside the imported module propagate."""
    module, _, attribute = getattr(config, "target", "").partition(":")  # a Config may override `load` instead
    try:
        return config.load()
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        problem: Fault = f"there is no module {error.name}"
    except AttributeError:
        if module not in sys.modules or hasattr(sys.modules[module], attribute):
            raise
        lacks: Fault = f"{module} has no {attribute}"
        problem = lacks
    raise PluginError(
        f"{_of(type(config))}: its target is {config.target!r}, but {problem}. "
        'Add the class, or declare another `target = "module:Class"`.'
    )


def _contradictions(config: ModelConfig, kind: type) -> Iterable[Fault]:
    """Yield a sentence for each declaration of the Config that the class contradicts."""
    for capability in sorted(config.capabilities, key=lambda capability: capability.__name__):
        if not issubclass(kind, capability):
            label, methods = capability.__name__, sorted(capability.__abstractmethods__)
            missing = [name for name in methods if not callable(getattr(kind, name, None))]
            inherits: Fault = f"{_of(kind)} has its methods, but does not inherit from it."
            lacks = _lack(kind, missing) if missing else inherits
            yield f"it declares the capability {label}; {lacks} Inherit from {label}, or correct `capabilities`."
    if config.likelihoods and not issubclass(kind, Scorer):
        yield f"it declares likelihoods, but {_of(kind)} is not a Scorer. Inherit from Scorer."
    if issubclass(kind, Scorer) and not config.likelihoods:
        yield f"it declares no likelihoods, but {_of(kind)} is a Scorer. Declare `likelihoods`."


def _lack(kind: type, methods: list[str]) -> Fault:
    return f"{_of(kind)} lacks the method{'' if len(methods) == 1 else 's'} {', '.join(map('`{}`'.format, methods))}."


def _of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
