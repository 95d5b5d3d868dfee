"""Detects code that a stage replaced: attributes of modules and classes, code and defaults of functions, by identity.

A decoder that replaces a method of torch changes the results of all later stages. So everything loaded before a stage
is compared after it, and settings of the interpreter are restored. If a thread outlives its stage, the process ends.
In modules that the stage itself loads, functions of parts are searched for among those of libraries.
"""

from __future__ import annotations

import builtins
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, TypeAlias

from bench_core.observed_inputs import assigned, bodies, sort_of
from bench_core.planning.code_digests import without_garbage_collection
from bench_core.registry import IN_SUITES, parts

#: Values whose replacement changes what others execute.
CODE = (
    FunctionType, BuiltinFunctionType, type, ModuleType, property, staticmethod, classmethod, MethodType,
    MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip
CONSTANTS = (int, float, complex, str, bytes, tuple, frozenset, type(None))
CONTAINERS = (dict, list, set)
WRAPPERS = (staticmethod, classmethod, MethodType)
#: Libraries that replace code at first use, and whose functions they put there.
FIRST_USE: Mapping[str, Sequence[str]] = {
    "torch": ("torch",), "inspect": ("torch",), "numpy": ("numpy",), "transformers": ("transformers",),
}  # fmt: skip
ENVIRONMENT, FILTERS = "the environment", "the warning filters"
QUIET = {FILTERS, "sys.path"}  # settings that libraries change when they are imported
COMPILED = ("__init__", "__setstate__")  #: methods of modules that torch replaces when it compiles the first one
SHOWN = 5  # names in a message

Place: TypeAlias = tuple[str, ...]  #: the name of a module, and of a class in it


class Namespace(NamedTuple):
    """The attributes of a module or a class, as they were."""

    owner: Any
    attributes: Mapping[str, Any]  # as they are
    names: list[str]
    values: list[Any]


class Setting(NamedTuple):
    """A setting of the process: how it is read, and how it is written."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]


@dataclass
class Watch:
    """The code of a process as it was before a stage."""

    namespaces: dict[Place, Namespace] = field(default_factory=dict)
    containers: dict[tuple[Place, str], tuple[Any, list[Any]]] = field(default_factory=dict)
    modules: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)  # their identifiers
    aliens: list[str] = field(default_factory=list)  # functions of parts in libraries, as these were first seen
    exclusive: bool = False  # whether the process does nothing but stages
    hosted: bool = False  # whether the process is one of an engine, such as Ray
    lenient: bool = False  # whether libraries may replace code, as those of observers do in this process
    idle: bool = False  # whether code is not looked at
    packages: frozenset[str] = frozenset()  # of the parts that suites name
    spoilt: bool = False  # whether the process should perform no other stage

    def begin(self) -> None:
        """Look at all code that is loaded; in a process of stages alone, at what was not seen after the last one."""
        if not self.idle:
            self.packages = frozenset(part.package for kind in IN_SUITES for part in parts(kind).values())
            with without_garbage_collection():
                if not self.exclusive:
                    self._forget_changes()
                self._enter_modules()
        bodies.clear()
        assigned.clear()
        self.settings = {name: setting.read() for name, setting in _settings().items()}
        self.threads = {*sys._current_frames()}

    def replaced(self, own: Iterable[str] = ()) -> list[str]:
        """Return what is not what it was, by name, and put it back; `own` modules may change what they hold."""
        if self.idle:
            return []
        with without_garbage_collection():  # what is compared are many small objects that all stay
            return self._replaced({*own})

    def _replaced(self, mine: set[str]) -> list[str]:
        found = [*self._replaced_modules(), *self._replaced_bodies()]
        for place, namespace in [*self.namespaces.items()]:
            if not _equal([*namespace.attributes.values()], namespace.values):
                found += self._replaced_attributes(place, namespace, place[0] in mine)
                self._enter(place, namespace.owner)
        found += self._changed_containers(mine)
        self.aliens.clear()
        self._enter_modules()
        return found + self.aliens

    def restored(self) -> list[str]:
        """Return which settings of the process are not what they were, and put them back."""
        settings = _settings()
        changed = [name for name, before in self.settings.items() if settings[name].read() != before]
        if not assigned:
            changed = [name for name in changed if name != ENVIRONMENT]
        for name in changed:
            with suppress(Exception):  # what cannot be put back ends with the process
                settings[name].write(self.settings[name])
        return [name for name in changed if name not in QUIET]

    def lingering(self) -> list[str]:
        """Return the names of threads of parts that outlive the stage."""
        names = {one.ident: one.name for one in threading.enumerate()}
        due = {one.ident for one in threading.enumerate() if _is_own(getattr(one, "function", None))}
        return [
            names.get(ident, "a thread")
            for ident, frame in sys._current_frames().items()
            if ident not in self.threads and (ident in due or _runs_own(frame))
        ]

    def _enter_modules(self) -> None:
        for name, module in [*sys.modules.items()]:
            if name not in self.modules:
                self.modules[name] = module
                if issubclass(type(module), ModuleType):
                    self._enter((name,), module)

    def _forget_changes(self) -> None:
        """Take all code as it is now."""
        self.modules = {name: module for name, module in self.modules.items() if sys.modules.get(name) is module}
        for place, namespace in [*self.namespaces.items()]:
            if not _equal([*namespace.attributes.values()], namespace.values):
                self._enter(place, namespace.owner)
        self.containers = {place: (value, _content(value)) for place, (value, _) in self.containers.items()}

    def _enter(self, place: Place, owner: Any) -> None:
        """Note the attributes of a module or a class, and of the classes in a module."""
        attributes = vars(owner)
        known = self.namespaces.get(place)
        before = {id(value) for value in known.values} if known else set()
        names, values = [*attributes], [*attributes.values()]
        kind_of_module = _sort_of_module(place[0])
        self.namespaces[place] = Namespace(owner, attributes, names, values)
        for name, value in zip(names, values, strict=True):
            if id(value) in before:
                continue
            kind = type(value)
            function = value.__func__ if kind in WRAPPERS else value.fget if kind is property else value
            if type(function) is FunctionType:
                if kind_of_module in ("lib", "std") and _is_own(function):
                    self.aliens.append(".".join((*place, name)))
            elif issubclass(kind, type) and len(place) == 1 and value.__module__ == place[0]:
                self._enter((*place, value.__qualname__), value)
            elif kind in CONTAINERS and not name.startswith("_") and self._is_of_part(place[0]):
                self.containers[place, name] = value, _content(value)

    def _replaced_modules(self) -> Iterator[str]:
        for name, module in self.modules.items():
            now = sys.modules.get(name)
            if now is not module and issubclass(type(module), ModuleType):
                yield f"sys.modules[{name!r}]"
                sys.modules[name] = module

    def _replaced_bodies(self) -> Iterator[str]:
        for (owner, name), before in [*bodies.items()]:
            if getattr(owner, name) is not before and self._knows(owner):
                yield f"{name} of {owner.__module__}.{owner.__qualname__}"
                _put(owner, name, before)

    def _knows(self, owner: Any) -> bool:
        """Return whether a function or a class was an attribute of a module, or of a class in it, before."""
        home, _, name = owner.__qualname__.rpartition(".")
        namespace = self.namespaces.get((owner.__module__, home) if home else (owner.__module__,))
        before = dict(zip(namespace.names, namespace.values, strict=True)).get(name) if namespace else None
        return owner in (before, getattr(before, "__func__", None), getattr(before, "fget", None))

    def _replaced_attributes(self, place: Place, namespace: Namespace, own: bool) -> Iterator[str]:
        attributes = namespace.attributes
        ours = not own and (self._is_of_part(place[0]) or place[0].startswith("bench_core."))
        for name, old in zip(namespace.names, namespace.values, strict=True):
            new = attributes.get(name, self)
            if new is old:
                continue
            is_code = issubclass(type(old), CODE)
            counts = is_code or (ours and type(old) in CONSTANTS and not name.startswith("_"))
            if not counts or (not is_code and type(new) is type(old) and new == old):
                continue
            if not _is_first_use(place[0], name, new) and not (self.lenient and not _is_own(new)):
                yield ".".join((*place, name))
                _put(namespace.owner, name, old)
        for name in attributes.keys() - {*namespace.names}:
            if _shadows(namespace.owner, name, attributes[name]) and not _is_first_use(
                place[0], name, attributes[name]
            ):
                yield ".".join((*place, name))
                with suppress(AttributeError, TypeError):
                    delattr(namespace.owner, name)

    def _changed_containers(self, own: set[str]) -> Iterator[str]:
        for (place, name), (value, before) in self.containers.items():
            if (now := _content(value)) != before:
                self.containers[place, name] = value, now
                if place[0] not in own:
                    yield f"the content of {'.'.join((*place, name))}"

    def _is_of_part(self, module: str) -> bool:
        return module.partition(".")[0] in self.packages


def _equal(now: list[Any], before: list[Any]) -> bool:
    """Return whether lists are equal, which for what is identical is quick to see."""
    try:
        return now == before
    except Exception:  # of values that cannot be compared
        return False


def _sort_of_module(name: str) -> str:
    file = getattr(sys.modules.get(name), "__file__", None)
    return sort_of(file) if file else "std" if name in sys.builtin_module_names else "own"


def _is_first_use(module: str, name: str, new: Any) -> bool:
    """Return whether a library put something of its own in the place of something, as it does at first use."""
    function = getattr(new, "__func__", None) or getattr(new, "fget", None) or new
    code = getattr(function, "__code__", None)
    if code is not None and sort_of(code.co_filename) not in ("lib", "std"):
        return False
    named, home = getattr(function, "__name__", name), str(getattr(function, "__module__", "") or "")
    known = home.partition(".")[0] in FIRST_USE.get(module.partition(".")[0], ())
    return known and (
        name in COMPILED or named in (name, f"_patched_{name}") or (named == "<lambda>" and home == module)
    )


def _shadows(owner: Any, name: str, value: Any) -> bool:
    """Return whether a new attribute hides an inherited method, or, in a module, a function of Python."""
    if not issubclass(type(value), CODE):
        return False
    if issubclass(type(owner), type):
        return any(issubclass(type(vars(base).get(name)), CODE) for base in owner.__mro__[1:-1])
    return hasattr(builtins, name) and not issubclass(type(value), ModuleType)  # as modules in packages are not


def _runs_own(frame: FrameType | None) -> bool:
    while frame is not None and sort_of(frame.f_code.co_filename) != "own":
        frame = frame.f_back
    return frame is not None


def _is_own(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and sort_of(code.co_filename) == "own"


def _put(owner: Any, name: str, value: Any) -> None:
    with suppress(AttributeError, TypeError):
        setattr(owner, name, value)


def _content(value: Any) -> list[Any]:
    """Return what a container holds, by identity."""
    return [*map(id, value), *(map(id, value.values()) if isinstance(value, dict) else ())]


def _settings() -> dict[str, Setting]:
    """Return the settings of this process that a part may have changed for all that follow."""
    found = {
        "the signal handlers": Setting(_handlers, _put_handlers),
        "the timers": Setting(_timers, lambda _: [signal.setitimer(one, 0) for one in TIMERS]),
        "sys.path": _list_setting(sys, "path"),
        "sys.meta_path": _list_setting(sys, "meta_path"),
        "sys.path_hooks": _list_setting(sys, "path_hooks"),
        FILTERS: _list_setting(warnings, "filters"),
        "sys.stdout": Setting(lambda: sys.stdout, lambda value: setattr(sys, "stdout", value)),
        "sys.stderr": Setting(lambda: sys.stderr, lambda value: setattr(sys, "stderr", value)),
        "sys.stdin": Setting(lambda: sys.stdin, lambda value: setattr(sys, "stdin", value)),
        "the trace function": Setting(sys.gettrace, sys.settrace),
        "the profile function": Setting(sys.getprofile, sys.setprofile),
        "the recursion limit": Setting(sys.getrecursionlimit, sys.setrecursionlimit),
        "garbage collection": Setting(lambda: (gc.isenabled(), gc.get_threshold()), _put_collection),
        ENVIRONMENT: Setting(lambda: {**os.environ}, _put_environment),
        "the umask": Setting(_umask, os.umask),
    }
    if socket := sys.modules.get("socket"):
        found["the default timeout of sockets"] = Setting(socket.getdefaulttimeout, socket.setdefaulttimeout)
    if decimal := sys.modules.get("decimal"):
        found["the decimal context"] = Setting(
            lambda: _decimal(decimal), lambda before: decimal.setcontext(decimal.Context(*before))
        )
    if locale := sys.modules.get("locale"):
        whole = locale.LC_ALL
        found["the locale"] = Setting(lambda: locale.setlocale(whole), lambda before: locale.setlocale(whole, before))
    if (torch := sys.modules.get("torch")) and hasattr(torch, "nn"):
        found |= _of_torch(torch)
    return found


def _of_torch(torch: Any) -> dict[str, Setting]:
    hooks = torch.nn.modules.module
    names = [name for name in vars(hooks) if name.startswith("_global_") and isinstance(getattr(hooks, name), dict)]
    return {
        "torch's anomaly detection": Setting(torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        "torch's function modes": Setting(
            torch._C._len_torch_function_stack, partial(_pop, torch._C, "torch_function_stack")
        ),
        "torch's dispatch modes": Setting(
            torch._C._len_torch_dispatch_stack, partial(_pop, torch._C, "torch_dispatch_stack")
        ),
        "torch's global hooks": Setting(
            lambda: {name: dict(getattr(hooks, name)) for name in names},
            lambda before: _refill(hooks, before),
        ),
        "torch's default generator": Setting(
            lambda: torch.default_generator, lambda value: setattr(torch, "default_generator", value)
        ),
    }


def _pop(stacks: Any, name: str, depth: int) -> None:
    while getattr(stacks, f"_len_{name}")() > depth:
        getattr(stacks, f"_pop_{name}")()


TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def _timers() -> tuple[bool, ...]:
    return tuple(signal.getitimer(one)[0] > 0 for one in TIMERS)


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _put_handlers(before: Mapping[int, Any]) -> None:
    for number, handler in before.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _put_collection(before: tuple[bool, tuple[int, int, int]]) -> None:
    (gc.enable if before[0] else gc.disable)()
    gc.set_threshold(*before[1])


def _put_environment(before: Mapping[str, str]) -> None:
    for name in [*assigned]:
        if name in before:
            os.environ[name] = before[name]
        else:
            os.environ.pop(name, None)


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value


def _decimal(decimal: Any) -> tuple[Any, ...]:
    context = decimal.getcontext()
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp


def _list_setting(owner: Any, name: str) -> Setting:
    def write(before: list[Any]) -> None:
        getattr(owner, name)[:] = before

    return Setting(lambda: [*getattr(owner, name)], write)


def _refill(owner: Any, before: Mapping[str, Mapping[Any, Any]]) -> None:
    for name, content in before.items():
        getattr(owner, name).clear()
        getattr(owner, name).update(content)
