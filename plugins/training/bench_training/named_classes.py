"""Classes that a training names, optimizers and schedules, of torch or of any module; finding them imports both."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, TypeAlias

from bench_core.errors import Fault, SuiteError
from bench_core.registry import suggestion

Sort: TypeAlias = Literal["optimizer", "schedule"]

#: Schedules of our own, with their settings and defaults.
OWN: Mapping[str, Mapping[str, float]] = {
    "constant": {"factor": 1.0},
    "plateau": {"factor": 0.5},
    "inverse-sqrt": {},
    "linear": {"end": 0.0},
    "cosine": {"end": 0.0},
}
#: Classes that a suite cannot use, and why.
REFUSED: dict[str, Fault] = {
    "lbfgs": "evaluates the loss several times an update, by a closure",
    "sparseadam": "is for sparse gradients alone; `adam` uses it for those",
    "lambdalr": "takes a function",
    "multiplicativelr": "takes a function",
    "sequentiallr": "combines schedules: give a list of schedules",
    "chainedscheduler": "combines schedules: give a list of schedules",
    "reducelronplateau": "hears of evaluations: use `plateau`",
}
_BASES = {"optimizer", "lrscheduler"}


def class_of(sort: Sort, name: str) -> Any:
    """Return the class that a name stands for; raise SuiteError for an unknown one, or one that cannot be used."""
    module, colon, attribute = name.partition(":")
    if colon:
        return _custom(sort, module, attribute)
    known = _known(sort)
    if reason := REFUSED.get(name.lower()):
        raise SuiteError(f"{sort} {name!r} {reason}.")
    if name.lower() not in known:
        names = [one.__name__ for one in known.values()] if sort == "schedule" else [*known]
        near = suggestion(name, [*(OWN if sort == "schedule" else ()), *names])
        raise SuiteError(f"no {sort} is called {name!r}. {near} Others are `package.module:Class`.")
    return known[name.lower()]


def tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with tuples in place of lists, as torch expects them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def names(sort: Sort) -> list[str]:
    """Return the names of the classes of torch that a suite can use."""
    return [one.__name__ for one in _known(sort).values()]


def _known(sort: Sort) -> dict[str, Any]:
    """Return the classes of torch by their names in small letters."""
    module = import_module("torch.optim" if sort == "optimizer" else "torch.optim.lr_scheduler")
    base = module.Optimizer if sort == "optimizer" else module.LRScheduler
    found = {name: getattr(module, name) for name in sorted(module.__all__)}
    classes = {name.lower(): one for name, one in found.items() if isinstance(one, type) and issubclass(one, base)}
    return {name: one for name, one in classes.items() if name not in {*REFUSED, *_BASES}}


def _custom(sort: Sort, module: str, attribute: str) -> Any:
    try:
        found = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever the import of a module raises, or if it ends the process
        near = suggestion(attribute, [*vars(sys.modules.get(module, type))])
        near = f" {near}" if near.startswith("Did") else ""
        raise SuiteError(f"{sort} '{module}:{attribute}' cannot be imported: {error}.{near}") from None
    if not hasattr(found, "step"):
        raise SuiteError(f"{sort} '{module}:{attribute}' has no method `step`.")
    return found
