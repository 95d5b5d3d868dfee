"""Copies of the contents of containers, arrays, objects and functions, for comparison and restoration.

Values may misbehave: their own methods are not called, and exceptions that they raise are suppressed.
"""

import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from functools import cached_property
from types import CellType, FunctionType, GetSetDescriptorType, MemberDescriptorType, SimpleNamespace
from typing import Any, NamedTuple

from process_watch.own_variables import variables

BYTES = (bytearray, array)
CONTAINERS = (dict, list, set, deque, *BYTES)
ARRAYS = {("numpy", "ndarray"), ("torch", "Tensor")}
LAYER = ("torch.nn.modules.module", "Module")
OF_LAYERS = {"_buffers", "_modules", "_parameters"}  # attributes with the contents of a torch layer
MAX_ELEMENTS = 100_000  # number compared per array; longer arrays are sampled at regular intervals
MISSING = object()


class Content(NamedTuple):
    """The earlier content of a container, an object or a function, and the names that lead to it."""

    value: Any
    before: Any
    names: set[tuple[str, ...]]  # module, attribute, nested attributes
    homes: set[str]  # modules of the classes, or of the functions with these cells


def is_array(kind: type) -> bool:
    """Return whether a class is an array or tensor class."""
    return not ARRAYS.isdisjoint(_bases(kind))


def holds(kind: type) -> bool:
    """Return whether objects of a class have contents that other code may read, whoever defines the class."""
    return issubclass(kind, (*CONTAINERS, Enum, SimpleNamespace)) or is_array(kind) or LAYER in _bases(kind)


def homes_of(value: Any) -> frozenset[str]:
    """Return the modules whose code may change the content of an object or the cells of a function.

    Layers may be changed only by user code: torch changes layers on behalf of others.
    """
    if type(value) is FunctionType:
        return frozenset({str(value.__globals__.get("__name__"))})
    kind = type(value)
    homes = frozenset(home for home, _ in _bases(kind))
    return frozenset(home for home in homes if not home.startswith("torch.")) if LAYER in _bases(kind) else homes


def _bases(kind: type) -> Iterator[tuple[str, str]]:
    return ((str(base.__module__), base.__name__) for base in kind.__mro__)


def has_attributes(kind: type) -> bool:
    """Return whether objects of a class have attributes, in a dict or in slots."""
    return bool(kind.__dictoffset__) or bool(_slots(kind))


def snapshot(value: Any) -> Any:
    """Return a copy of the contents of a value: items, bytes of elements, attributes, or contents of cells."""
    kind = type(value)
    if kind is dict:  # the most frequent case
        return value.copy()
    with suppress(Exception):
        if kind is FunctionType:
            return {name: _cell_content(cell) for name, cell in _cells(value)}
        if issubclass(kind, dict):
            return {**dict((OrderedDict if issubclass(kind, OrderedDict) else dict).items(value))}
        if issubclass(kind, list):
            return list.copy(value)
        if issubclass(kind, set):
            return set().union(value)
        if issubclass(kind, deque):
            return [*deque.__iter__(value)]
        if is_array(kind) or issubclass(kind, BYTES):
            return _elements(value)
        slots = {name: slot.__get__(value) for name, slot in _slots(kind).items() if _is_set(slot, value)}
        return {"__class__": kind, **slots, **_attributes(value)}
    return MISSING


def items(content: Any) -> Iterable[tuple[Any, Any]]:
    """Return (key, value) pairs of the content of a container or an object; items without keys have key 0."""
    if isinstance(content, dict):
        return content.items()
    return ((0, item) for item in content) if isinstance(content, list | set | tuple) else ()


def equal(now: Any, before: Any) -> bool:
    """Return whether values are equal; fast for identical values."""
    try:
        return bool(now == before)
    except Exception:  # incomparable values
        return False


def is_same(now: Any, before: Any) -> bool:
    """Return whether contents are equal and in the same order."""
    return equal(now, before) and (not isinstance(now, dict) or equal([*now], [*before]))


def may_change(content: Content, now: Any, name: tuple[str, ...]) -> bool:
    """Return whether modules that a block uses may change this content, for example a variable or a growing cache."""
    if now is MISSING or content.before is MISSING:
        return True
    names = frozenset[str]().union(*map(variables, {name[0], *content.homes}))
    is_object = isinstance(now, dict) and not issubclass(type(content.value), dict)
    if not is_object and not names.isdisjoint(name[1:]):
        return True
    if isinstance(now, bytes):
        return False
    if isinstance(now, list):
        is_full = len(now) == getattr(content.value, "maxlen", None)  # a bounded deque drops its oldest items
        return is_full or equal(now[: len(content.before)], content.before)
    if isinstance(now, set):
        return bool(now > content.before)
    changed = {
        key for key in {**content.before, **now} if now.get(key, MISSING) is not content.before.get(key, MISSING)
    }
    if not is_object:
        return changed.isdisjoint(content.before)
    kind = content.before.get("__class__", FunctionType)
    names |= variables(str(kind.__module__))
    if LAYER in _bases(kind):
        names = names.union(*(variables(str(base.__module__)) for base in kind.__mro__))
    return all(key in names or isinstance(getattr(kind, key, None), cached_property) for key in changed)


def restore(value: Any, before: Any) -> bool:
    """Restore the earlier content of a value; return whether this succeeded."""
    with suppress(Exception):
        kind = type(value)
        if issubclass(kind, list):
            value[:] = before
        elif is_array(kind) or issubclass(kind, BYTES):
            _put_elements(value, before)
        elif issubclass(kind, CONTAINERS):
            value.clear()
            (value.extend if issubclass(kind, deque) else value.update)(before)
        elif kind is FunctionType:
            for name, cell in _cells(value):
                cell.cell_contents = before[name]
        else:
            _put_attributes(value, before)
    return is_same(snapshot(value), before)


def _slots(kind: type) -> dict[str, Any]:
    """Return the slots of a class by name."""
    members = [item for base in kind.__mro__ for item in [*vars(base).items()]]  # other threads may add attributes
    return {name: slot for name, slot in members if type(slot) is MemberDescriptorType and name != "__dict__"}


def _is_set(slot: Any, value: Any) -> bool:
    with suppress(AttributeError):
        slot.__get__(value)
        return True
    return False


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attribute dict of an object, regardless of its class's own hooks."""
    for base in type(value).__mro__:
        if type(slot := vars(base).get("__dict__")) is GetSetDescriptorType:
            attributes: dict[str, Any] = slot.__get__(value)
            return attributes
    return object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else {}


def _put_attributes(value: Any, before: dict[str, Any]) -> None:
    if type(value) is not before["__class__"]:
        object.__setattr__(value, "__class__", before["__class__"])
    slots, attributes = _slots(type(value)), _attributes(value)
    for name, slot in slots.items():
        if name in before:
            slot.__set__(value, before[name])
        elif _is_set(slot, value):
            slot.__delete__(value)
    attributes.clear()
    attributes.update({name: item for name, item in before.items() if name != "__class__" and name not in slots})


def _step(size: int) -> int:
    return size // MAX_ELEMENTS + 1


def _elements(value: Any) -> bytes:
    """Return the bytes of (sampled) elements of an array or a tensor on the CPU."""
    if isinstance(value, BYTES):
        return bytes(value[:: _step(len(value))])
    if not hasattr(type(value), "detach"):
        return bytes(value.flat[:: _step(value.size)].tobytes())
    flat = value.detach().reshape(-1)[:: _step(value.numel())]
    return bytes(flat.contiguous().view(sys.modules["torch"].uint8).numpy().tobytes())


def _put_elements(value: Any, before: bytes) -> None:
    """Restore an array from the bytes of all its elements."""
    if isinstance(value, BYTES):
        assert _step(len(value)) == 1
        other: Any = array(value.typecode, before) if isinstance(value, array) else before
        value[:] = other
    elif not hasattr(type(value), "detach"):
        assert _step(value.size) == 1
        value[...] = sys.modules["numpy"].frombuffer(before, value.dtype).reshape(value.shape)
    else:
        assert _step(value.numel()) == 1
        known = sys.modules["torch"].frombuffer(bytearray(before), dtype=value.dtype)
        value.detach().copy_(known.reshape(value.shape))


def _cells(function: FunctionType) -> Iterator[tuple[str, CellType]]:
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def _cell_content(cell: CellType) -> Any:
    with suppress(ValueError):
        return cell.cell_contents
    return MISSING
