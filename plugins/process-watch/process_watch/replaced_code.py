"""Detects, by identity, replaced attributes of modules and classes, and replaced code and defaults of functions.

All code loaded before a block is compared after it; in the host and in watched packages, public values and their
contents are also compared. Modules used by the block may change variables that their own code assigns, and add to
containers, as caches do. Threads that outlive their block are reported.
"""

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from operator import is_
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from process_watch.caches import Caches
from process_watch.held_contents import (
    MISSING,
    OF_LAYERS,
    Content,
    equal,
    has_attributes,
    holds,
    homes_of,
    is_same,
    items,
    may_change,
    restore,
    snapshot,
)
from process_watch.importing import imports
from process_watch.observed_inputs import assigned, bodies
from process_watch.own_variables import variables
from process_watch.replacements import (
    CODE,
    function_of,
    is_borrowed,
    is_first_use,
    is_fixed,
    is_generated,
    is_helper,
    is_of_operator,
    is_user_code,
    kernels,
    put_back,
    shadowed_value,
    sort_of_module,
)
from process_watch.threads import Threads
from process_watch.watched_settings import ENVIRONMENT, QUIET, imported_settings, settings
from process_watch.whose_code import host

PACKAGE = __name__.partition(".")[0]  # treated as part of the host
MEMBERS = ("_member_map_", "_value2member_map_")  #: attributes of an Enum with its members
UNLOADED = importlib.util._LazyModule  # type: ignore[attr-defined]  # access would load the module
MAX_NESTED_VALUES = 1000  #: values inspected per container

Place: TypeAlias = tuple[str, ...]  #: name of a module, and optionally of a class in it


class Namespace(NamedTuple):
    """The recorded attributes of a module or a class."""

    owner: Any
    attributes: Mapping[str, Any]  # live
    names: list[str]
    values: list[Any]


@dataclass
class Watch:
    """The code and settings of a process before a block."""

    namespaces: dict[Place, Namespace] = field(default_factory=dict)
    contents: dict[int, Content] = field(default_factory=dict)  # id of the value -> content
    modules: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, type] = field(default_factory=dict)  # classes of modules
    settings: dict[str, Any] = field(default_factory=dict)
    threads: Threads = field(default_factory=Threads)
    exclusive: bool = False  # whether the process only runs blocks
    uninterrupted: bool = False  # whether only blocks ran since the last block
    hosted: bool = False  # whether the process belongs to an engine, such as Ray
    lenient: bool = False  # whether libraries may replace code, as observers do
    idle: bool = False  # whether comparison of code is disabled
    packages: frozenset[str] = frozenset()  # user packages watched by the host
    of_host: frozenset[str] = frozenset()  # the host's own packages
    helpers: set[str] = field(default_factory=set)  # user modules in other packages
    spoilt: bool = False  # whether the process should not run further blocks
    caches: Caches = field(default_factory=Caches)
    kernels: set[str] | None = None  # torch kernels registered from Python; None before torch is imported
    lost: list[str] = field(default_factory=list)  # names that could not be restored

    def begin(self) -> None:
        """Record all loaded code, or only new modules if nothing but blocks ran since the last call."""
        if not self.idle:
            self.packages, self.of_host = frozenset(host().watched()), frozenset((*host().packages, PACKAGE))
            with host().comparing():
                if self.threads.left:
                    self._restore_code(set())  # changes by threads since the last block
                is_new = self._enter_modules()  # new modules may have changed others
                if not (self.threads.left or self.exclusive) and (is_new or not self.uninterrupted):
                    self._accept_changes()
                    self._enter_modules()
            imports.after.append(self.note_imports)
        bodies.clear()
        assigned.clear()
        self.settings = {name: setting.read() for name, setting in settings().items()}
        self.caches.begin()
        self.threads.begin()

    def note_imports(self) -> None:
        """Record new modules before a block can change them, and the settings that they add."""
        if any(sort_of_module(name) in ("lib", "std") for name in imports.current()):
            return  # libraries may change anything during their import
        for key, (owner, _) in [*bodies.items()]:
            if not self._knows(owner):
                bodies.pop(key, None)
        self._enter_modules()
        for name, setting in imported_settings().items():
            if name not in self.settings:
                self.settings[name] = setting.read()

    def end(self, exempt: Iterable[str] = ()) -> tuple[list[str], list[str], list[str]]:
        """Restore code and settings; return the names of replaced code, changed settings, and remaining threads.

        Threads that end during the comparison are included: they may replace code that has already been compared.
        """
        settings, threads = None, list[str]()
        with suppress(Exception):  # raised by replaced code, which is then restored first
            threads = self.threads.lingering()
            settings = self.restored()
        code = self.replaced(exempt)
        settings = self.restored() if settings is None else settings
        if code or settings or threads:
            self.caches.clear()
        return code, settings, [*dict.fromkeys([*threads, *self.threads.lingering()])]

    def replaced(self, exempt: Iterable[str] = ()) -> list[str]:
        """Restore replaced code and return its names; modules in `exempt` may set their variables."""
        imports.after.clear()
        if self.idle:
            return []
        with host().comparing():  # comparisons create many long-lived small objects
            return self._restore_code({*exempt})

    def _restore_code(self, own_modules: set[str]) -> list[str]:
        names = [*self._restore_modules(), *self._restore_bodies(), *self._changed_kernels()]
        for place, namespace in self._changed_namespaces():
            names += self._restore_attributes(place, namespace, own_modules)
            self._enter(place, namespace.owner)
        names += self._restore_contents(own_modules)
        self._enter_modules()
        return names

    def restored(self) -> list[str]:
        """Restore changed settings of the process and return their names."""
        now = settings()
        changed = [name for name, before in self.settings.items() if now[name].read() != before]
        if not assigned:
            changed = [name for name in changed if name != ENVIRONMENT]
        for name in changed:
            with suppress(Exception):
                now[name].write(self.settings[name])
        self.lost += [name for name in changed if now[name].read() != self.settings[name]]
        return [name for name in changed if name not in QUIET]

    def _enter_modules(self) -> bool:
        """Record new modules, except modules being imported; return whether there are any."""
        loading, known = imports.current(), len(self.modules)
        if self.kernels is None and "torch.library" in sys.modules and "torch" not in loading:
            self.kernels = kernels()
        for name in sys.modules.keys() - self.modules.keys():
            module = sys.modules.get(name)
            if type(module) is UNLOADED or name.partition(".")[0] in loading:
                continue
            self.modules[name] = module
            if issubclass(type(module), ModuleType):
                self.kinds[name] = type(module)
                if not self._is_ours(name) and is_helper(name, module):
                    self.helpers.add(name)
                self._enter((name,), module)
        return len(self.modules) > known

    def _accept_changes(self) -> None:
        """Record the current state of all code."""
        self.modules = {name: module for name, module in [*self.modules.items()] if sys.modules.get(name) is module}
        self.kinds = {name: type(module) for name, module in [*self.modules.items()] if name in self.kinds}
        for place, namespace in self._changed_namespaces():
            self._enter(place, namespace.owner)
        for key, content in [*self.contents.items()]:
            if not is_same(now := snapshot(content.value), content.before):
                self.contents[key] = content._replace(before=now)

    def _enter(self, place: Place, owner: Any) -> None:
        """Record the attributes of a module or a class, of its classes, and the contents of their values."""
        attributes = (type if issubclass(type(owner), type) else object).__getattribute__(owner, "__dict__")
        known, now = self.namespaces.get(place), attributes.copy()
        before = {id(value) for value in known.values} if known else set()
        ours = self._is_ours(place[0])
        self.namespaces[place] = Namespace(owner, attributes, [*now], [*now.values()])
        for name, value in now.items():
            if id(value) in before:
                continue
            kind, function = type(value), function_of(value)
            self.caches.enter(place[0], function)
            if type(function) is FunctionType:
                if function.__kwdefaults__:
                    self._enter_content(function.__kwdefaults__, *place, name)
                if function.__closure__ and ours and function.__module__ == place[0]:
                    self._enter_content(function, *place, name)
            elif issubclass(kind, type) and len(place) == 1 and value.__module__ == place[0]:
                self._enter((*place, value.__qualname__), value)
            elif ours and (name in MEMBERS or (not name.startswith("_") and self._may_hold(kind))):
                if self._is_of_host(place[0]) and not name.isupper():  # public names of the host may be variables
                    continue
                self._enter_content(value, *place, name)

    def _enter_content(self, value: Any, *name: str) -> None:
        """Record the contents of a value, and of a limited number of nested containers, arrays and objects."""
        pending, number = [(value, name, frozenset[str]())], 0
        while pending and number < MAX_NESTED_VALUES:
            (inner, path, homes), number = pending.pop(0), number + 1
            content = inner
            if type(inner) is not tuple:
                recorded = self.contents.get(id(inner)) or Content(inner, snapshot(inner), set(), set())
                self.contents[id(inner)] = recorded
                if path in recorded.names:
                    continue
                recorded.names.add(path)
                recorded.homes.update(homes)
                content = recorded.before
            is_object = isinstance(content, dict) and not issubclass(type(inner), dict)
            if is_object:
                homes |= homes_of(inner)
            for key, each in islice(items(content), MAX_NESTED_VALUES):
                if type(each) is tuple or self._may_hold(type(each)):
                    pending.append((each, (*path, key) if is_object and key not in OF_LAYERS else path, homes))

    def _may_hold(self, kind: type) -> bool:
        """Return whether objects of a class have contents to compare: containers, Enum members, user objects."""
        home = str(kind.__module__)
        is_user_class = self._is_ours(home) and not self._is_of_host(home) and has_attributes(kind)
        return holds(kind) or (is_user_class and not issubclass(kind, type))

    def _changed_namespaces(self) -> list[tuple[Place, Namespace]]:
        """Return the namespaces whose attributes have changed identity or order."""
        changed = []
        for item in [*self.namespaces.items()]:
            now, before = [*item[1].attributes.values()], item[1].values
            if len(now) != len(before) or not all(map(is_, now, before)):
                changed.append(item)
        return changed

    def _restore_modules(self) -> Iterator[str]:
        for name, module in [*self.modules.items()]:
            now = sys.modules.get(name)
            if now is module or not issubclass(type(module), ModuleType):
                continue
            if type(now) is type(module) is not ModuleType and sort_of_module(name, module) == "lib":
                self.modules[name] = now  # a lazily loading library re-executes itself
                self._enter((name,), now)
            elif not (self.lenient and sort_of_module(name, module) in ("lib", "std")):
                yield f"sys.modules[{name!r}]"
                sys.modules[name] = module
        for name, kind in [*self.kinds.items()]:
            if (module := self.modules.get(name)) is not None and type(module) is not kind:
                yield f"the class of {name}"
                module.__class__ = kind

    def _restore_bodies(self) -> Iterator[str]:
        for (_, name), (owner, before) in [*bodies.items()]:
            if (now := getattr(owner, name)) is not before and self._knows(owner) and not is_generated(owner, now):
                yield f"{name} of {owner.__module__}.{owner.__qualname__}"
                with suppress(AttributeError, TypeError):
                    setattr(owner, name, before)

    def _changed_kernels(self) -> Iterator[str]:
        """Yield the torch operators with new kernels from user code; these cannot be restored."""
        if self.kernels is None:  # other threads may be importing torch
            return
        now = kernels()
        for kernel in sorted(now - self.kernels):
            if is_of_operator(kernel):
                yield f"the kernel {kernel}"
                self.lost.append(f"the kernel {kernel}")
        self.kernels = now

    def _knows(self, owner: Any) -> bool:
        """Return whether a function or class was already recorded as an attribute of a module or of its classes."""
        home, _, name = owner.__qualname__.rpartition(".")
        namespace = self.namespaces.get((owner.__module__, home) if home else (owner.__module__,))
        before = dict(zip(namespace.names, namespace.values, strict=True)).get(name) if namespace else None
        return owner is before or owner is function_of(before)

    def _restore_attributes(self, place: Place, namespace: Namespace, own_modules: set[str]) -> Iterator[str]:
        before, ours = dict(zip(namespace.names, namespace.values, strict=True)), self._is_ours(place[0])
        for name in [*before, *(namespace.attributes.keys() - before.keys())]:
            new = namespace.attributes.get(name, MISSING)
            old = before[name] if name in before else shadowed_value(namespace.owner, name, new, ours)
            if new is old or old is MISSING or not self._counts(place[0], name, old, own_modules):
                continue
            if type(new) is type(old) and not issubclass(type(old), CODE) and equal(new, old):
                continue
            is_allowed = False
            with suppress(Exception):  # raised by odd values
                is_allowed = is_first_use(place[0], name, old, new)
            if not is_allowed and not (self.lenient and not is_user_code(new)):
                yield ".".join((*place, name))
                put_back(namespace.owner, name, before.get(name, MISSING))
                if namespace.attributes.get(name, MISSING) is not before.get(name, MISSING):
                    self.lost.append(".".join((*place, name)))

    def _counts(self, module: str, name: str, old: Any, own_modules: set[str]) -> bool:
        """Return whether an attribute must stay unchanged."""
        if issubclass(type(old), CODE):
            return True
        if name.startswith("_"):
            return False
        if not self._is_ours(module):
            counts = callable(old) or type(old).__name__ == "dtype" or is_fixed(module, name, old)
            return counts and sort_of_module(module) != "own"
        return not (self._takes_part(module, own_modules) and (old is None or name in variables(module)))

    def _restore_contents(self, own_modules: set[str]) -> Iterator[str]:
        for key, content in [*self.contents.items()]:
            if is_same(now := snapshot(content.value), content.before):
                continue
            names = [*content.names]
            takes_part = [name for name in names if self._takes_part(name[0], own_modules)]
            helps = all(name[0] in self.helpers for name in names) and is_borrowed(content.value)
            if helps or any(may_change(content, now, name) for name in takes_part):
                self.contents[key] = content._replace(before=now)
            else:
                yield (name := f"the content of {'.'.join(min(names))}")
                if not restore(content.value, content.before):
                    self.lost.append(name)
                    self.contents[key] = content._replace(before=snapshot(content.value))

    def _is_ours(self, module: str) -> bool:
        return module.partition(".")[0] in self.packages or module in self.helpers or self._is_of_host(module)

    def _is_of_host(self, module: str) -> bool:
        top, dot, _ = module.partition(".")
        return bool(dot) and top in self.of_host

    def _takes_part(self, module: str, own_modules: set[str]) -> bool:
        """Return whether code of a module may run in a block, so that its variables may change."""
        return module in own_modules or module in self.helpers or self._is_of_host(module)
