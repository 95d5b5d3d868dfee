"""Decides whether a replaced value is code, who owns it, and whether a library may replace it."""

import builtins
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from process_watch.held_contents import MISSING
from process_watch.own_variables import assigned_names
from process_watch.whose_code import INSTALLED, sort_of

#: Types of code: replacing values of these types affects other code, whatever their names.
CODE = (
    FunctionType, BuiltinFunctionType, type, ModuleType, property, staticmethod, classmethod, MethodType,
    MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip
#: Types of public library values that only the library's own code may replace.
VALUES = (str, bytes, bool, int, float, complex, tuple, frozenset, type(None))
MAIN = {"__main__", "__mp_main__"}
WRAPPERS = (staticmethod, classmethod, MethodType)
#: module -> the other library that may replace its code at first use; otherwise, only its own code
FIRST_USE: Mapping[str, str] = {"inspect": "torch"}
DEVICES = ("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "Autograd", "CompositeImplicitAutograd")


def is_generated(owner: Any, code: Any) -> bool:
    """Return whether a library replaced the code of its function with generated code, e.g. networkx at first use."""
    name, library = getattr(code, "co_filename", ""), owner.__module__.partition(".")[0]
    return name.startswith("<") and library in name and sort_of_module(library) == "lib"


def is_fixed(module: str, name: str, value: Any) -> bool:
    """Return whether a public library value is a constant: no function of its module assigns it."""
    if not issubclass(type(value), VALUES) or (module == "sys" and name.startswith("last_")):
        return False
    return type(value) is float or name not in assigned_names(module)


def is_helper(name: str, module: Any) -> bool:
    """Return whether a module is user code in a package that is not watched."""
    file = file_of(module)
    return name not in MAIN and bool(file) and sort_of(file) == "own" and INSTALLED.isdisjoint(Path(file).parts)


def is_borrowed(value: Any) -> bool:
    """Return whether a value is an attribute of a module of Python, of a library or of the host."""
    homes = (module for name, module in [*sys.modules.items()] if sort_of_module(name, module) != "own")
    return any(value is attribute for home in homes for attribute in [*getattr(home, "__dict__", {}).values()])


def function_of(value: Any) -> Any:
    """Return the function of a method or a property; return any other value unchanged."""
    kind = type(value)
    return value.__func__ if kind in WRAPPERS else value.fget if kind is property else value


def sort_of_module(name: str, module: Any = None) -> str:
    """Return the owner of a module's code; own (user code) if the module has no file."""
    file = file_of(sys.modules.get(name) if module is None else module)
    return sort_of(file) if file else "std" if name in sys.builtin_module_names else "own"


def file_of(module: Any) -> str:
    """Return the file of a module, or an empty string."""
    with suppress(Exception):  # not a module
        return str(object.__getattribute__(module, "__dict__").get("__file__") or "")
    return ""


def is_first_use(module: str, name: str, old: Any, new: Any) -> bool:
    """Return whether a library replaced its own attribute, as some libraries do at first use.

    Allowed are: a wrapper of the old value, a function defined in a function, or another private function of the
    same class; an imported module that replaces an attribute or placeholder of the same name in its package; and an
    empty tuple filled with objects of the library's classes, such as `torch.cuda.default_generators` after the first
    tensor on a GPU.
    """
    top = module.partition(".")[0]
    if type(new) is tuple and old == ():
        return sort_of_module(module) == "lib" and {type(item).__module__.partition(".")[0] for item in new} == {top}
    if issubclass(type(new), ModuleType):
        names = f"{module}.{name}", getattr(old, "__name__", "") if issubclass(type(old), ModuleType) else ""
        return any(sys.modules.get(module_name) is new for module_name in names)
    (home, now, code), (old_home, was, _) = definition(new), definition(old)
    library = FIRST_USE.get(top, top if sort_of_module(module) == "lib" else "")
    if home.partition(".")[0] != library or (code is not None and sort_of(code.co_filename) not in ("lib", "std")):
        return False
    *owner, named = now.split(".")
    if library != top:
        return named in (name, f"_patched_{name}")
    if "<locals>" in f"{now} {was}":
        return "<locals>" in now or named in (name, "<lambda>")
    is_private = name.startswith("_") and not name.endswith("__")
    return home == old_home and (now == was or (is_private and owner == was.split(".")[:-1]))


def definition(value: Any) -> tuple[str, str, CodeType | None]:
    """Return the module of a function or a class, its qualified name, and its code."""
    function = function_of(value)
    home, name = (str(getattr(function, attribute, None) or "") for attribute in ("__module__", "__qualname__"))
    return home, name, getattr(function, "__code__", None)


def runs_user_code(frame: FrameType | None) -> bool:
    """Return whether user code is among the callers of a frame."""
    while frame is not None and sort_of(frame.f_code.co_filename) != "own":
        frame = frame.f_back
    return frame is not None


def is_user_code(function: Any) -> bool:
    """Return whether a function is user code."""
    code = getattr(function, "__code__", None)
    return code is not None and sort_of(code.co_filename) == "own"


def shadowed_value(owner: Any, name: str, new: Any, ours: bool) -> Any:
    """Return the value shadowed by a new attribute, e.g. an inherited method; code in user classes always counts."""
    is_code = issubclass(type(new), CODE)
    if not is_code and not ours:
        return MISSING
    if issubclass(type(owner), type):
        default = type if is_code and ours else MISSING
        return next((vars(base)[name] for base in owner.__mro__[1:] if name in vars(base)), default)
    if name == "__getattr__":
        return type
    return MISSING if issubclass(type(new), ModuleType) else getattr(builtins, name, MISSING)


def put_back(owner: Any, name: str, value: Any) -> None:
    """Set or delete an attribute of a class or a module, bypassing its own hooks."""
    setter: Any = type if issubclass(type(owner), type) else object
    with suppress(AttributeError, TypeError):
        setter.__delattr__(owner, name) if value is MISSING else setter.__setattr__(owner, name, value)


def kernels() -> set[str]:
    """Return the kernels of torch operators that were registered from Python."""
    return {*getattr(sys.modules.get("torch.library"), "_impls", ())}


def is_of_operator(kernel: str) -> bool:
    """Return whether a kernel directly implements a torch operator on a device in use."""
    return kernel.startswith("aten/") and kernel.rpartition("/")[2] in DEVICES
