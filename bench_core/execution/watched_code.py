"""Detects what a stage replaced: attributes of modules and classes, code and defaults of functions, by identity.

A decoder that replaces a method of torch changes the results of all later stages. So all code that was loaded before
a stage is compared after it. In the core and in parts, public values and their contents are compared, too. Modules
that take part in the stage may change variables that their own code assigns, and add to containers, as caches do. If
a thread outlives its stage, the process ends. In libraries that the stage itself loads, functions of parts count as
replaced code.
"""

from __future__ import annotations

import ast
import builtins
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CellType,
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
from weakref import WeakSet

from bench_core.execution.watched_settings import ENVIRONMENT, QUIET, settings
from bench_core.observed_inputs import assigned, bodies
from bench_core.planning.code_digests import without_garbage_collection
from bench_core.registry import IN_SUITES, parts
from bench_core.whose_code import sort_of
from bench_core.wrapped_readers import started_by

#: Values whose replacement changes what others execute, whatever their names.
CODE = (
    FunctionType, BuiltinFunctionType, type, ModuleType, property, staticmethod, classmethod, MethodType,
    MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip
CONTAINERS = (dict, list, set)
NUMBERS = ("float", "complex", "dtype")  #: types of public values of libraries that never change
WRAPPERS = (staticmethod, classmethod, MethodType)
MEMBERS = ("_member_map_", "_value2member_map_")  #: of an Enum
CHANGING = {"clear", "discard", "insert", "move_to_end", "pop", "popitem", "remove", "reverse", "sort", "update"}
#: Libraries that replace code at first use, and whose functions they put there.
FIRST_USE: Mapping[str, Sequence[str]] = {
    "torch": ("torch",), "inspect": ("torch",), "numpy": ("numpy",), "transformers": ("transformers",),
}  # fmt: skip
COMPILED = ("__init__", "__setstate__")  #: methods of modules that torch replaces when it compiles the first one
SHOWN = 5  # names in a message
DEVICES = ("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "Autograd", "CompositeImplicitAutograd")
MISSING = object()

Place: TypeAlias = tuple[str, ...]  #: the name of a module, and of a class in it


class Namespace(NamedTuple):
    """The attributes of a module or a class, as they were."""

    owner: Any
    attributes: Mapping[str, Any]  # as they are
    names: list[str]
    values: list[Any]


class Content(NamedTuple):
    """What a container, an object or a function held, and the names that it has."""

    value: Any
    before: Any
    names: set[tuple[str, ...]]


@dataclass
class Watch:
    """The code of a process as it was before a stage."""

    namespaces: dict[Place, Namespace] = field(default_factory=dict)
    contents: dict[int, Content] = field(default_factory=dict)  # by identity
    modules: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, type] = field(default_factory=dict)  # the classes of the modules
    settings: dict[str, Any] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)  # their identifiers
    others: WeakSet[threading.Thread] = field(default_factory=WeakSet)  # but for the one that performs stages
    aliens: list[str] = field(default_factory=list)  # functions of parts in libraries, as these were first seen
    exclusive: bool = False  # whether the process does nothing but stages
    hosted: bool = False  # whether the process is one of an engine, such as Ray
    lenient: bool = False  # whether libraries may replace code, as those of observers do in this process
    idle: bool = False  # whether code is not looked at
    packages: frozenset[str] = frozenset()  # of the parts that suites name
    spoilt: bool = False  # whether the process should perform no other stage
    left: dict[int, str] = field(default_factory=dict)  # threads of earlier stages, by their identifiers
    kernels: set[str] = field(default_factory=set)  # of operators of torch, as Python put them there
    lost: list[str] = field(default_factory=list)  # what could not be put back

    def begin(self) -> None:
        """Record all loaded code; in a process that only performs stages, only modules new since the last stage."""
        if not self.idle:
            packages = {part.package for kind in IN_SUITES for part in parts(kind).values()}
            self.packages = frozenset(packages - {"bench_core"})  # of which only the toys are parts
            with without_garbage_collection():
                if self.left:
                    self._replaced(set())  # by a thread, since the last stage
                elif not self.exclusive:
                    self._forget_changes()
                self._enter_modules()
        bodies.clear()
        assigned.clear()
        self.settings = {name: setting.read() for name, setting in settings().items()}
        self.threads = {*sys._current_frames()}
        self.others = WeakSet({*threading.enumerate()} - {threading.current_thread()})
        self.left = {ident: name for ident, name in self.left.items() if ident in self.threads}

    def replaced(self, own: Iterable[str] = ()) -> list[str]:
        """Return the names of what the stage replaced, and restore it; `own` modules may set their variables."""
        if self.idle:
            return []
        with without_garbage_collection():  # what is compared are many small objects that all stay
            return self._replaced({*own})

    def _replaced(self, mine: set[str]) -> list[str]:
        found = [*self._replaced_modules(), *self._replaced_bodies(), *self._replaced_kernels()]
        for place, namespace in [*self.namespaces.items()]:
            if not _equal([*namespace.attributes.values()], namespace.values):
                found += self._replaced_attributes(place, namespace, mine)
                self._enter(place, namespace.owner)
        found += self._changed_contents(mine)
        self.aliens.clear()
        self._enter_modules()
        return found + self.aliens

    def restored(self) -> list[str]:
        """Return the names of settings of the process that changed, and restore them."""
        now = settings()
        changed = [name for name, before in self.settings.items() if now[name].read() != before]
        if not assigned:
            changed = [name for name in changed if name != ENVIRONMENT]
        for name in changed:
            with suppress(Exception):
                now[name].write(self.settings[name])
        self.lost += [name for name in changed if now[name].read() != self.settings[name]]
        return [name for name in changed if name not in QUIET]

    def lingering(self) -> list[str]:
        """Return the names of threads of parts that outlive the stage."""
        known = {one.ident: one for one in threading.enumerate()}
        due = {ident for ident, one in known.items() if _is_own(getattr(one, "function", None))}
        found = {
            ident: known[ident].name if ident in known else "a thread"
            for ident, frame in sys._current_frames().items()
            if (ident in due or _runs_own(frame)) and not self._was_there(ident, known.get(ident))
        }
        self.left |= found
        return [*found.values()]

    def _was_there(self, ident: int, thread: threading.Thread | None) -> bool:
        """Return whether a thread was there before the stage, or was started by such a thread, as in a server."""
        if thread in (None, threading.current_thread()):
            return ident in self.threads  # identifiers of threads that have ended are used again
        while thread is not None and thread not in self.others:
            thread = started_by.get(thread)
        return thread is not None

    def _enter_modules(self) -> None:
        for name, module in [*sys.modules.items()]:
            if name not in self.modules:
                self.modules[name] = module
                if issubclass(type(module), ModuleType):
                    self.kinds[name] = type(module)
                    self._enter((name,), module)

    def _forget_changes(self) -> None:
        """Take all code as it is now."""
        self.modules = {name: module for name, module in self.modules.items() if sys.modules.get(name) is module}
        self.kinds = {name: type(module) for name, module in self.modules.items() if name in self.kinds}
        for place, namespace in [*self.namespaces.items()]:
            if not _equal([*namespace.attributes.values()], namespace.values):
                self._enter(place, namespace.owner)
        for key, (value, _, names) in self.contents.items():
            self.contents[key] = Content(value, _held(value), names)

    def _enter(self, place: Place, owner: Any) -> None:
        """Note the attributes of a module or a class, of the classes in a module, and what their values hold."""
        attributes = vars(owner)
        known = self.namespaces.get(place)
        before = {id(value) for value in known.values} if known else set()
        names, values = [*attributes], [*attributes.values()]
        kind_of_module, ours = _sort_of_module(place[0]), self._is_ours(place[0])
        self.namespaces[place] = Namespace(owner, attributes, names, values)
        for name, value in zip(names, values, strict=True):
            if id(value) in before:
                continue
            kind = type(value)
            function = value.__func__ if kind in WRAPPERS else value.fget if kind is property else value
            if type(function) is FunctionType:
                if kind_of_module in ("lib", "std") and _is_own(function):
                    self.aliens.append(".".join((*place, name)))
                if function.__kwdefaults__:
                    self._enter_content(function.__kwdefaults__, *place, name)
                if function.__closure__ and ours and function.__module__ == place[0]:
                    self._enter_content(function, *place, name)
            elif issubclass(kind, type) and len(place) == 1 and value.__module__ == place[0]:
                self._enter((*place, value.__qualname__), value)
            elif ours and (name in MEMBERS or (not name.startswith("_") and self._may_hold(kind))):
                if _is_core(place[0]) and not name.isupper():  # it has variables, too
                    continue
                self._enter_content(value, *place, name)

    def _enter_content(self, value: Any, *name: str) -> None:
        self.contents.setdefault(id(value), Content(value, _held(value), set())).names.add(name)

    def _may_hold(self, kind: type) -> bool:
        """Return whether objects of a class hold what others may read: containers, members of an Enum, of parts."""
        own = kind.__module__.partition(".")[0] in self.packages and kind.__dictoffset__
        return issubclass(kind, (*CONTAINERS, Enum)) or bool(own and not issubclass(kind, type))

    def _replaced_modules(self) -> Iterator[str]:
        for name, module in self.modules.items():
            now = sys.modules.get(name)
            if now is module or not issubclass(type(module), ModuleType):
                continue
            if not (self.lenient and _sort_of_module(name, module) in ("lib", "std")):
                yield f"sys.modules[{name!r}]"
                sys.modules[name] = module
        for name, kind in self.kinds.items():
            if (module := self.modules.get(name)) is not None and type(module) is not kind:
                yield f"the class of {name}"
                module.__class__ = kind

    def _replaced_bodies(self) -> Iterator[str]:
        for (owner, name), before in [*bodies.items()]:
            if getattr(owner, name) is not before and self._knows(owner):
                yield f"{name} of {owner.__module__}.{owner.__qualname__}"
                _put(owner, name, before)

    def _replaced_kernels(self) -> Iterator[str]:
        """Yield the operators of torch that got other kernels, which stay, from the code of parts."""
        library = sys.modules.get("torch.library")
        now: set[str] = set(getattr(library, "_impls", ()))
        for one in sorted(now - self.kernels) if self.kernels else ():
            if one.startswith("aten/") and one.rpartition("/")[2] in DEVICES:
                yield f"the kernel {one}"
                self.lost.append(f"the kernel {one}")
        self.kernels = now

    def _knows(self, owner: Any) -> bool:
        """Return whether a function or a class was an attribute of a module, or of a class in it, before."""
        home, _, name = owner.__qualname__.rpartition(".")
        namespace = self.namespaces.get((owner.__module__, home) if home else (owner.__module__,))
        before = dict(zip(namespace.names, namespace.values, strict=True)).get(name) if namespace else None
        return owner in (before, getattr(before, "__func__", None), getattr(before, "fget", None))

    def _replaced_attributes(self, place: Place, namespace: Namespace, mine: set[str]) -> Iterator[str]:
        before = dict(zip(namespace.names, namespace.values, strict=True))
        for name in [*before, *(namespace.attributes.keys() - before.keys())]:
            new = namespace.attributes.get(name, MISSING)
            old = before[name] if name in before else self._hidden(place, namespace.owner, name, new)
            if new is old or old is MISSING or not self._counts(place[0], name, old, mine):
                continue
            if type(new) is type(old) and not issubclass(type(old), CODE) and _equal([new], [old]):
                continue
            if not _is_first_use(place[0], name, new) and not (self.lenient and not _is_own(new)):
                yield ".".join((*place, name))
                with suppress(AttributeError, TypeError):
                    setattr(namespace.owner, name, old) if name in before else delattr(namespace.owner, name)

    def _hidden(self, place: Place, owner: Any, name: str, new: Any) -> Any:
        """Return what a new attribute hides, such as an inherited method; in a part's class, code hides anything."""
        is_code, ours = issubclass(type(new), CODE), self._is_ours(place[0])
        if not is_code and not ours:
            return MISSING
        if issubclass(type(owner), type):
            default = type if is_code and ours else MISSING
            return next((vars(base)[name] for base in owner.__mro__[1:] if name in vars(base)), default)
        if name == "__getattr__":
            return type
        return MISSING if issubclass(type(new), ModuleType) else getattr(builtins, name, MISSING)

    def _counts(self, module: str, name: str, old: Any, mine: set[str]) -> bool:
        """Return whether an attribute is one that must stay as it was."""
        if issubclass(type(old), CODE):
            return True
        if name.startswith("_"):
            return False
        if not self._is_ours(module):
            return _sort_of_module(module) != "own" and (callable(old) or type(old).__name__ in NUMBERS)
        return not ((module in mine or _is_core(module)) and (old is None or name in _variables(module)))

    def _changed_contents(self, mine: set[str]) -> Iterator[str]:
        for key, one in [*self.contents.items()]:
            if _is_same(now := _held(one.value), one.before):
                continue
            if any((name[0] in mine or _is_core(name[0])) and _may_change(one, now, name) for name in one.names):
                self.contents[key] = one._replace(before=now)
            else:
                yield f"the content of {'.'.join(min(one.names))}"
                with suppress(Exception):
                    _fill(one.value, one.before)

    def _is_ours(self, module: str) -> bool:
        return module.partition(".")[0] in self.packages or _is_core(module)


def _is_core(module: str) -> bool:
    return module.startswith("bench_core.")


def _equal(now: list[Any], before: list[Any]) -> bool:
    """Return whether lists are equal, which for what is identical is quick to see."""
    try:
        return now == before
    except Exception:  # of values that cannot be compared
        return False


def _sort_of_module(name: str, module: Any = None) -> str:
    file = getattr(module or sys.modules.get(name), "__file__", None)
    return sort_of(file) if file else "std" if name in sys.builtin_module_names else "own"


def _is_first_use(module: str, name: str, new: Any) -> bool:
    """Return whether a library put something of its own in the place of something, as it does at first use.

    Also if a module of that name was imported, which takes the place of what its package had under this name.
    """
    if isinstance(new, ModuleType) and new is sys.modules.get(f"{module}.{name}"):
        return True
    function = getattr(new, "__func__", None) or getattr(new, "fget", None) or new
    code = getattr(function, "__code__", None)
    if code is not None and sort_of(code.co_filename) not in ("lib", "std"):
        return False
    named, home = getattr(function, "__name__", name), str(getattr(function, "__module__", "") or "")
    known = home.partition(".")[0] in FIRST_USE.get(module.partition(".")[0], ())
    return known and (
        name in COMPILED or named in (name, f"_patched_{name}") or (named == "<lambda>" and home == module)
    )


@cache
def _variables(module: str) -> frozenset[str]:
    """Return the names that the code of a module assigns in functions or in objects, or whose content it changes."""
    found = set[str]()
    with suppress(OSError, SyntaxError, AttributeError):
        for node in ast.walk(ast.parse(Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8"))):
            match node:
                case ast.Global(names) | ast.Nonlocal(names):
                    found.update(names)
                case (
                    ast.Attribute(attr=name, ctx=ast.Store() | ast.Del())
                    | ast.Subscript(value=ast.Name(name) | ast.Attribute(attr=name), ctx=ast.Store() | ast.Del())
                ):
                    found.add(name)
                case ast.Call(func=ast.Attribute(ast.Name(name) | ast.Attribute(attr=name), change)) if (
                    change in CHANGING
                ):
                    found.add(name)
    return frozenset(found)


def _held(value: Any) -> Any:
    """Return a copy of what a container holds, or of the attributes of an object, or of the cells of a function."""
    for kind in CONTAINERS:
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, FunctionType):
        return {name: _inside(cell) for name, cell in _cells(value)}
    return {"__class__": type(value), **vars(value)}


def _cells(function: FunctionType) -> Iterator[tuple[str, CellType]]:
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def _inside(cell: CellType) -> Any:
    with suppress(ValueError):
        return cell.cell_contents
    return MISSING


def _is_same(now: Any, before: Any) -> bool:
    return _equal(now, before) and (not isinstance(now, dict) or _equal([*now], [*before]))


def _may_change(one: Content, now: Any, name: tuple[str, ...]) -> bool:
    """Return whether a module that takes part in a stage may change this: a variable, or a cache that grew."""
    variables = _variables(name[0])
    if isinstance(one.value, list):
        return name[-1] in variables or now[: len(one.before)] == one.before
    if isinstance(one.value, set):
        return name[-1] in variables or now > one.before
    changed = {key for key in {**one.before, **now} if now.get(key, MISSING) is not one.before.get(key, MISSING)}
    if isinstance(one.value, dict):
        return name[-1] in variables or changed.isdisjoint(one.before)
    kind = one.before.get("__class__", FunctionType)
    variables |= _variables(kind.__module__)
    return all(key in variables or isinstance(getattr(kind, key, None), cached_property) for key in changed)


def _fill(value: Any, before: Any) -> None:
    """Have an object hold what it held before."""
    if isinstance(value, list):
        value[:] = before
    elif isinstance(value, FunctionType):
        for name, cell in _cells(value):
            cell.cell_contents = before[name]
    else:
        if not isinstance(value, CONTAINERS):
            value.__class__ = before["__class__"]
            value, before = vars(value), {name: one for name, one in before.items() if name != "__class__"}
        value.clear()
        value.update(before)


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
