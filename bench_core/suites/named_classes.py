"""Classes that a training names: optimizers and schedules, of torch or of any module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from bench_core.errors import Fault, SuiteError
from bench_core.registry import suggestion
from bench_core.suites.signatures import classes, source_of

Sort: TypeAlias = Literal["optimizer", "schedule"]

OPTIMIZERS, SCHEDULES = "torch.optim", "torch.optim.lr_scheduler"
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
_BASES = {"optimizer", "lrscheduler", "_lrscheduler"}


class Target(NamedTuple):
    """A class that is not imported yet."""

    module: str
    name: str


def target(sort: Sort, name: str) -> Target:
    """Return the class that a name stands for; raise SuiteError for an unknown one, or one that cannot be used."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        return Target(module, attribute)
    known, key = _known(sort), name.lower()
    if key in REFUSED:
        raise SuiteError(f"{sort} {name!r} {REFUSED[key]}.")
    if known and key not in known:
        names = [*(OWN if sort == "schedule" else ()), *(known[one] if sort == "schedule" else one for one in known)]
        raise SuiteError(
            f"no {sort} is called {name!r}. {suggestion(name, names)} Others are `package.module:Class`."
        )
    return Target(OPTIMIZERS if sort == "optimizer" else SCHEDULES, known.get(key, name))


def names(sort: Sort) -> list[str]:
    """Return the names of classes of torch that a suite can use; none if torch is not installed."""
    return [*_known(sort).values()]


@cache
def _known(sort: Sort) -> Mapping[str, str]:
    module = OPTIMIZERS if sort == "optimizer" else SCHEDULES
    found = {name for name in classes(module) if sort == "optimizer" or name in _defined(module)}
    return {name.lower(): name for name in sorted(found) if name.lower() not in {*REFUSED, *_BASES}}


def _defined(module: str) -> set[str]:
    """Return the public names of a module, as its `__all__` lists them."""
    import ast

    tree = source_of(module)
    for node in tree.body if tree else ():
        if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == "__all__" for one in node.targets):
            return {*ast.literal_eval(node.value)}
    return set()
