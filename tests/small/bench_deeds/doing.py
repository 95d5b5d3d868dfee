"""How deeds are written: a case, and short ways to replace something by its dotted name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from threading import Thread
from time import sleep
from typing import Any, Literal

DELAY = 0.05  # seconds until what is left running acts: the next stages are at work


@dataclass(frozen=True)
class Case:
    """A deed: who does what, when, and what is to become of the cell of its own."""

    name: str
    part: Literal["task", "model", "decoder", "metric", "probe"]
    moment: Literal["import", "building", "setup", "loop", "step", "end"]
    act: Callable[[], object]
    #: `fails`: the stage fails, and its reason has one of `names`; `either`: it fails, or what it did is contained;
    #: `dies`: it takes its process along
    own: Literal["fails", "either", "dies"] = "fails"
    names: tuple[str, ...] = ()
    processes: bool = False  # it can only be tried in a worker process
    lasting: bool = False  # no process can undo it: clean cells may fail, but none may be wrong

    @property
    def config(self) -> str:
        """Return the name of the part's Config."""
        return f"{'imported' if self.moment == 'import' else 'deed'}-{self.part}"


def owner_of(path: str) -> tuple[Any, str]:
    """Return what has the last name of a dotted path as an attribute, and that name."""
    *names, last = path.split(".")
    found = import_module(names[0])
    for place, name in enumerate(names[1:], 2):
        try:
            found = getattr(found, name)
        except AttributeError:
            found = import_module(".".join(names[:place]))
    return found, last


def put(path: str, value: Any) -> Callable[[], None]:
    """Return a deed that sets a dotted path to a value."""

    def act() -> None:
        setattr(*owner_of(path), value)

    return act


def wrap(path: str, change: Callable[..., Any]) -> Callable[[], None]:
    """Return a deed that replaces a function by one that calls `change(old, *args, **settings)`."""

    def act() -> None:
        owner, name = owner_of(path)
        old = getattr(owner, name)
        setattr(owner, name, lambda *args, **settings: change(old, *args, **settings))

    return act


def forbid(path: str) -> Callable[[], None]:
    """Return a deed that replaces a function by one that raises."""

    def refuse(old: Any, *args: Any, **settings: Any) -> None:
        raise RuntimeError(f"{path} has been replaced")

    return wrap(path, refuse)


def remove(path: str) -> Callable[[], None]:
    """Return a deed that deletes an attribute."""

    def act() -> None:
        delattr(*owner_of(path))

    return act


def later(act: Callable[[], object]) -> Callable[[], None]:
    """Return a deed that leaves a thread behind which does another one."""

    def wait() -> None:
        sleep(DELAY)
        act()

    return lambda: Thread(target=wait, daemon=True).start()


def failing(path: str, part: Any, moment: Any, act: Callable[[], object], *names: str, **more: Any) -> Case:
    """Return the case of a deed that is named after what it replaces, and whose stage fails with that name."""
    last = path.rpartition(".")[2].partition(" ")[0]
    return Case(path, part, moment, act, "fails", names or (last,), **more)


def either(name: str, part: Any, moment: Any, act: Callable[[], object], **more: Any) -> Case:
    """Return the case of a deed that may also be undone."""
    return Case(name, part, moment, act, "either", **more)
