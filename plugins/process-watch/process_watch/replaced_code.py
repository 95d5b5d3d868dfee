"""Detects what a block replaced: attributes of modules and classes, code and defaults of functions, by identity.

A block that replaces a method of a library changes the results of all later blocks. So all code that was loaded
before a block is compared after it. In the host and in watched packages, public values and their contents are
compared, too. Modules that take part in the block may change variables that their own code assigns, and add to
containers, as caches do. Threads that outlive their block are named.
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

from process_watch.held_contents import (
    MISSING,
    OF_LAYERS,
    Content,
    equal,
    has_attributes,
    held,
    holds,
    homes_of,
    is_same,
    items,
    may_change,
    restore,
)
from process_watch.importing import imports
from process_watch.observed_inputs import assigned, bodies
from process_watch.own_variables import variables
from process_watch.replacements import (
    CODE,
    function_of,
    hidden,
    is_borrowed,
    is_compiled,
    is_first_use,
    is_fixed,
    is_helper,
    is_of_operator,
    is_own_code,
    kernels,
    put_back,
    sort_of_module,
)
from process_watch.threads import Threads
from process_watch.watched_settings import ENVIRONMENT, QUIET, imported_settings, settings
from process_watch.whose_code import host

PACKAGE = __name__.partition(".")[0]  # whose code is the host's, too
MEMBERS = ("_member_map_", "_value2member_map_")  #: of an Enum
UNLOADED = importlib.util._LazyModule  # type: ignore[attr-defined]  # a look at it would load it
NESTED = 1000  #: values in a container that are looked at

Place: TypeAlias = tuple[str, ...]  #: the name of a module, and of a class in it


class Namespace(NamedTuple):
    """The attributes of a module or a class, as they were."""

    owner: Any
    attributes: Mapping[str, Any]  # as they are
    names: list[str]
    values: list[Any]


@dataclass
class Watch:
    """The code of a process as it was before a block."""

    namespaces: dict[Place, Namespace] = field(default_factory=dict)
    contents: dict[int, Content] = field(default_factory=dict)  # by identity
    modules: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, type] = field(default_factory=dict)  # the classes of the modules
    settings: dict[str, Any] = field(default_factory=dict)
    threads: Threads = field(default_factory=Threads)
    exclusive: bool = False  # whether the process does nothing but blocks
    uninterrupted: bool = False  # whether it has done nothing else since the last block
    hosted: bool = False  # whether the process is one of an engine, such as Ray
    lenient: bool = False  # whether libraries may replace code, as those of observers do in this process
    idle: bool = False  # whether code is not looked at
    packages: frozenset[str] = frozenset()  # of users, which the host watches
    of_host: frozenset[str] = frozenset()  # its own packages
    helpers: set[str] = field(default_factory=set)  # modules of users in other packages
    spoilt: bool = False  # whether the process should perform no other block
    kernels: set[str] | None = None  # of operators of torch, as Python put them there; None before torch is imported
    lost: list[str] = field(default_factory=list)  # what could not be put back

    def begin(self) -> None:
        """Record all loaded code; if only blocks were performed since the last one, only modules new since then."""
        if not self.idle:
            self.packages, self.of_host = frozenset(host().watched()), frozenset((*host().packages, PACKAGE))
            with host().comparing():
                if self.threads.left:
                    self._replaced(set())  # by a thread, since the last block
                is_new = self._enter_modules()  # and may have changed other modules
                if not (self.threads.left or self.exclusive) and (is_new or not self.uninterrupted):
                    self._forget_changes()
                    self._enter_modules()
            imports.after.append(self.note_imports)
        bodies.clear()
        assigned.clear()
        self.settings = {name: setting.read() for name, setting in settings().items()}
        self.threads.begin()

    def note_imports(self) -> None:
        """Record what has been imported, before a block can change it, and settings that it brings."""
        if any(sort_of_module(name) in ("lib", "std") for name in imports.current()):
            return  # what a library changes while it is imported is its own
        for key, (owner, _) in [*bodies.items()]:
            if not self._knows(owner):
                bodies.pop(key, None)
        self._enter_modules()
        for name, setting in imported_settings().items():
            if name not in self.settings:
                self.settings[name] = setting.read()

    def end(self, own: Iterable[str] = ()) -> tuple[list[str], list[str], list[str]]:
        """Restore code and settings; return the names of what was replaced and changed, and of remaining threads.

        These include threads that end while code is compared: they may replace what has already been compared.
        """
        settings, threads = None, list[str]()
        with suppress(Exception):  # of replaced code, which is restored first in that case
            threads = self.threads.lingering()
            settings = self.restored()
        code = self.replaced(own)
        settings = self.restored() if settings is None else settings
        return code, settings, [*dict.fromkeys([*threads, *self.threads.lingering()])]

    def replaced(self, own: Iterable[str] = ()) -> list[str]:
        """Return the names of what the block replaced, and restore it; `own` modules may set their variables."""
        imports.after.clear()
        if self.idle:
            return []
        with host().comparing():  # what is compared are many small objects that all stay
            return self._replaced({*own})

    def _replaced(self, mine: set[str]) -> list[str]:
        found = [*self._replaced_modules(), *self._replaced_bodies(), *self._replaced_kernels()]
        for place, namespace in self._changed_namespaces():
            found += self._replaced_attributes(place, namespace, mine)
            self._enter(place, namespace.owner)
        found += self._changed_contents(mine)
        self._enter_modules()
        return found

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

    def _enter_modules(self) -> bool:
        """Note modules that are new, but for those that are being imported; return whether there are any."""
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

    def _forget_changes(self) -> None:
        """Take all code as it is now."""
        self.modules = {name: module for name, module in [*self.modules.items()] if sys.modules.get(name) is module}
        self.kinds = {name: type(module) for name, module in [*self.modules.items()] if name in self.kinds}
        for place, namespace in self._changed_namespaces():
            self._enter(place, namespace.owner)
        for key, one in [*self.contents.items()]:
            if not is_same(now := held(one.value), one.before):
                self.contents[key] = one._replace(before=now)

    def _enter(self, place: Place, owner: Any) -> None:
        """Note the attributes of a module or a class, of the classes in a module, and what their values hold."""
        getter = type if issubclass(type(owner), type) else object
        attributes = getter.__getattribute__(owner, "__dict__")
        known, now = self.namespaces.get(place), attributes.copy()
        before = {id(value) for value in known.values} if known else set()
        ours = self._is_ours(place[0])
        self.namespaces[place] = Namespace(owner, attributes, [*now], [*now.values()])
        for name, value in now.items():
            if id(value) in before:
                continue
            kind, function = type(value), function_of(value)
            if type(function) is FunctionType:
                if function.__kwdefaults__:
                    self._enter_content(function.__kwdefaults__, *place, name)
                if function.__closure__ and ours and function.__module__ == place[0]:
                    self._enter_content(function, *place, name)
            elif issubclass(kind, type) and len(place) == 1 and value.__module__ == place[0]:
                self._enter((*place, value.__qualname__), value)
            elif ours and (name in MEMBERS or (not name.startswith("_") and self._may_hold(kind))):
                if self._is_of_host(place[0]) and not name.isupper():  # it has variables, too
                    continue
                self._enter_content(value, *place, name)

    def _enter_content(self, value: Any, *name: str) -> None:
        """Note what a value holds, and a number of containers, arrays and objects in it."""
        due, number = [(value, name, frozenset[str]())], 0
        while due and number < NESTED:
            (inner, path, homes), number = due.pop(0), number + 1
            content = inner
            if type(inner) is not tuple:
                one = self.contents.get(id(inner)) or Content(inner, held(inner), set(), set())
                self.contents[id(inner)] = one
                if path in one.names:
                    continue
                one.names.add(path)
                one.homes.update(homes)
                content = one.before
            is_object = isinstance(content, dict) and not issubclass(type(inner), dict)
            if is_object:
                homes |= homes_of(inner)
            for key, each in islice(items(content), NESTED):
                if type(each) is tuple or self._may_hold(type(each)):
                    due.append((each, (*path, key) if is_object and key not in OF_LAYERS else path, homes))

    def _may_hold(self, kind: type) -> bool:
        """Return whether objects of a class hold what others may read: containers, members of an Enum, of users."""
        home = str(kind.__module__)
        own = self._is_ours(home) and not self._is_of_host(home) and has_attributes(kind)
        return holds(kind) or (own and not issubclass(kind, type))

    def _changed_namespaces(self) -> list[tuple[Place, Namespace]]:
        """Return the namespaces whose attributes are other objects, or in another order, than they were."""
        found = []
        for item in [*self.namespaces.items()]:
            now, before = [*item[1].attributes.values()], item[1].values
            if len(now) != len(before) or not all(map(is_, now, before)):
                found.append(item)
        return found

    def _replaced_modules(self) -> Iterator[str]:
        for name, module in [*self.modules.items()]:
            now = sys.modules.get(name)
            if now is module or not issubclass(type(module), ModuleType):
                continue
            if type(now) is type(module) is not ModuleType and sort_of_module(name, module) == "lib":
                self.modules[name] = now  # a library whose own class loads lazily executes itself again
                self._enter((name,), now)
            elif not (self.lenient and sort_of_module(name, module) in ("lib", "std")):
                yield f"sys.modules[{name!r}]"
                sys.modules[name] = module
        for name, kind in [*self.kinds.items()]:
            if (module := self.modules.get(name)) is not None and type(module) is not kind:
                yield f"the class of {name}"
                module.__class__ = kind

    def _replaced_bodies(self) -> Iterator[str]:
        for (_, name), (owner, before) in [*bodies.items()]:
            if (now := getattr(owner, name)) is not before and self._knows(owner) and not is_compiled(owner, now):
                yield f"{name} of {owner.__module__}.{owner.__qualname__}"
                with suppress(AttributeError, TypeError):
                    setattr(owner, name, before)

    def _replaced_kernels(self) -> Iterator[str]:
        """Yield the operators of torch that got other kernels, which stay, from users' code."""
        if self.kernels is None:  # other threads may import torch meanwhile
            return
        now = kernels()
        for one in sorted(now - self.kernels):
            if is_of_operator(one):
                yield f"the kernel {one}"
                self.lost.append(f"the kernel {one}")
        self.kernels = now

    def _knows(self, owner: Any) -> bool:
        """Return whether a function or a class was an attribute of a module, or of a class in it, before."""
        home, _, name = owner.__qualname__.rpartition(".")
        namespace = self.namespaces.get((owner.__module__, home) if home else (owner.__module__,))
        before = dict(zip(namespace.names, namespace.values, strict=True)).get(name) if namespace else None
        return owner is before or owner is function_of(before)

    def _replaced_attributes(self, place: Place, namespace: Namespace, mine: set[str]) -> Iterator[str]:
        before = dict(zip(namespace.names, namespace.values, strict=True))
        for name in [*before, *(namespace.attributes.keys() - before.keys())]:
            new = namespace.attributes.get(name, MISSING)
            old = before[name] if name in before else hidden(namespace.owner, name, new, self._is_ours(place[0]))
            if new is old or old is MISSING or not self._counts(place[0], name, old, mine):
                continue
            if type(new) is type(old) and not issubclass(type(old), CODE) and equal(new, old):
                continue
            may_be = False
            with suppress(Exception):  # of a value that cannot be asked
                may_be = is_first_use(place[0], name, old, new)
            if not may_be and not (self.lenient and not is_own_code(new)):
                yield ".".join((*place, name))
                put_back(namespace.owner, name, before.get(name, MISSING))
                if namespace.attributes.get(name, MISSING) is not before.get(name, MISSING):
                    self.lost.append(".".join((*place, name)))

    def _counts(self, module: str, name: str, old: Any, mine: set[str]) -> bool:
        """Return whether an attribute is one that must stay as it was."""
        if issubclass(type(old), CODE):
            return True
        if name.startswith("_"):
            return False
        if not self._is_ours(module):
            counts = callable(old) or type(old).__name__ == "dtype" or is_fixed(module, name, old)
            return counts and sort_of_module(module) != "own"
        return not (self._takes_part(module, mine) and (old is None or name in variables(module)))

    def _changed_contents(self, mine: set[str]) -> Iterator[str]:
        for key, one in [*self.contents.items()]:
            if is_same(now := held(one.value), one.before):
                continue
            names = [*one.names]
            helps = all(name[0] in self.helpers for name in names) and is_borrowed(one.value)
            if helps or any(self._takes_part(name[0], mine) and may_change(one, now, name) for name in names):
                self.contents[key] = one._replace(before=now)
            else:
                yield (name := f"the content of {'.'.join(min(names))}")
                if not restore(one.value, one.before):
                    self.lost.append(name)
                    self.contents[key] = one._replace(before=held(one.value))

    def _is_ours(self, module: str) -> bool:
        return module.partition(".")[0] in self.packages or module in self.helpers or self._is_of_host(module)

    def _is_of_host(self, module: str) -> bool:
        top, dot, _ = module.partition(".")
        return bool(dot) and top in self.of_host

    def _takes_part(self, module: str, mine: set[str]) -> bool:
        """Return whether code of a module may run in a block, so that its variables may change."""
        return module in mine or module in self.helpers or self._is_of_host(module)
