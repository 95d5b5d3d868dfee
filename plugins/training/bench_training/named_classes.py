"""Optimizer and schedule classes by name, from torch or any other module; a lookup imports the module."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, TypeAlias

from bench_core.errors import Fault, SuiteError
from bench_core.registry import suggestion

Kind: TypeAlias = Literal["optimizer", "schedule"]

#: Built-in schedules with their settings and defaults.
BUILT_IN_SCHEDULES: Mapping[str, Mapping[str, float]] = {
    "constant": {"factor": 1.0},
    "plateau": {"factor": 0.5},
    "inverse-sqrt": {},
    "linear": {"end": 0.0},
    "cosine": {"end": 0.0},
}
#: Unsupported torch classes, and why.
REFUSED: dict[str, Fault] = {
    "lbfgs": "evaluates the loss several times per update, using a closure",
    "sparseadam": "supports only sparse gradients; `adam` uses it for these",
    "lambdalr": "takes a function",
    "multiplicativelr": "takes a function",
    "sequentiallr": "combines schedules; use a list of schedules",
    "chainedscheduler": "combines schedules; use a list of schedules",
    "reducelronplateau": "needs evaluation results; use `plateau`",
}
_BASES = {"optimizer", "lrscheduler"}


def class_of(kind: Kind, name: str) -> Any:
    """Return a class by name; raise SuiteError if it is unknown or unsupported."""
    module, colon, attribute = name.partition(":")
    if colon:
        return _custom(kind, module, attribute)
    classes = _torch_classes(kind)
    if reason := REFUSED.get(name.lower()):
        raise SuiteError(f"{kind} {name!r} {reason}.")
    if name.lower() not in classes:
        names = [cls.__name__ for cls in classes.values()] if kind == "schedule" else [*classes]
        near = suggestion(name, [*(BUILT_IN_SCHEDULES if kind == "schedule" else ()), *names])
        raise SuiteError(f"no {kind} is called {name!r}. {near} For other classes, use `package.module:Class`.")
    return classes[name.lower()]


def tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert lists in settings to tuples, as torch expects."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def names(kind: Kind) -> list[str]:
    """Return the names of the supported torch classes."""
    return [cls.__name__ for cls in _torch_classes(kind).values()]


def _torch_classes(kind: Kind) -> dict[str, Any]:
    """Return the supported torch classes by their lower-case names."""
    module = import_module("torch.optim" if kind == "optimizer" else "torch.optim.lr_scheduler")
    base = module.Optimizer if kind == "optimizer" else module.LRScheduler
    members = {name: getattr(module, name) for name in sorted(module.__all__)}
    classes = {name.lower(): cls for name, cls in members.items() if isinstance(cls, type) and issubclass(cls, base)}
    return {name: cls for name, cls in classes.items() if name not in {*REFUSED, *_BASES}}


def _custom(kind: Kind, module: str, attribute: str) -> Any:
    try:
        cls = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # an import may raise anything, even end the process
        near = suggestion(attribute, [*vars(sys.modules.get(module, type))])
        near = f" {near}" if near.startswith("Did") else ""
        raise SuiteError(f"{kind} '{module}:{attribute}' cannot be imported: {error}.{near}") from None
    if not hasattr(cls, "step"):
        raise SuiteError(f"{kind} '{module}:{attribute}' has no method `step`.")
    return cls
