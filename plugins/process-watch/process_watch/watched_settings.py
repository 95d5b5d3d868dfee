"""Settings of a process that a block may change for later ones: how to read them, and how to restore them."""

import copyreg
import gc
import json
import logging
import os
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from process_watch.observed_inputs import assigned
from process_watch.whose_code import host, sort_of

ENVIRONMENT, FILTERS = "the environment", "the warning filters"
QUIET = {FILTERS, "sys.path"}  #: settings that libraries change when they are imported
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
OPEN_FILES = 32  # that a block can open at the least
LIMITS = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]


class Setting(NamedTuple):
    """A setting of the process: how it is read, and how it is written."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]


def settings() -> dict[str, Setting]:
    """Return the settings of this process that a block may change for later ones."""
    found = {
        "the signal handlers": Setting(_handlers, _put_handlers),
        "the timers": Setting(_timers, lambda _: [signal.setitimer(one, 0) for one in TIMERS]),
        "sys.path": _content(sys, "path"),
        "sys.meta_path": Setting(_finders, _put_finders),
        "sys.path_hooks": _content(sys, "path_hooks"),
        FILTERS: _content(warnings, "filters"),
        "gc.callbacks": _content(gc, "callbacks"),
        "copyreg.dispatch_table": Setting(_reducers, _put_reducers),
        "the JSON encoder": _attributes(json, "_default_encoder"),
        "the JSON decoder": _attributes(json, "_default_decoder"),
        **{f"sys.{name}": _attribute(sys, name) for name in ("stdin", "stdout", "stderr")},
        "the folder of temporary files": Setting(tempfile.gettempdir, partial(setattr, tempfile, "tempdir")),
        "logging.disable": Setting(lambda: logging.root.manager.disable, logging.disable),
        "the trace function": Setting(sys.gettrace, sys.settrace),
        "the profile function": Setting(sys.getprofile, sys.setprofile),
        "the recursion limit": Setting(sys.getrecursionlimit, sys.setrecursionlimit),
        "the switch interval": Setting(sys.getswitchinterval, sys.setswitchinterval),
        "the maximum number of digits of integers": Setting(sys.get_int_max_str_digits, sys.set_int_max_str_digits),
        "garbage collection": Setting(lambda: (gc.isenabled(), gc.get_threshold()), _put_collection),
        ENVIRONMENT: Setting(lambda: {**os.environ}, _put_environment),
        "the time zone": Setting(_zone, lambda _: time.tzset()),  # after the variable that decides it
        "the umask": Setting(_umask, os.umask),
        "the resource limits": Setting(
            lambda: [*map(resource.getrlimit, LIMITS)],
            lambda before: [*map(resource.setrlimit, LIMITS, before)],
        ),
        "the cache of re": Setting(_wrong_expressions, lambda _: re.purge()),
        "the room for open files": Setting(_has_room, lambda _: None),
        **{name: Setting(*one) for name, one in host().settings().items()},
    }
    if hasattr(os, "sched_getaffinity"):
        found["the CPU affinity"] = Setting(
            lambda: os.sched_getaffinity(0), lambda before: os.sched_setaffinity(0, before)
        )
    return found | imported_settings()


def imported_settings() -> dict[str, Setting]:
    """Return the settings of what has been imported."""
    found, modules = {}, sys.modules
    if socket := modules.get("socket"):
        found["the default timeout of sockets"] = Setting(socket.getdefaulttimeout, socket.setdefaulttimeout)
    if decimal := modules.get("decimal"):
        for name, get in {
            "the decimal context": decimal.getcontext,
            "decimal.DefaultContext": lambda: decimal.DefaultContext,
        }.items():
            found[name] = Setting(partial(_decimal, get), partial(_put_decimal, get))
    if locale := modules.get("locale"):
        whole = locale.LC_ALL
        found["the locale"] = Setting(lambda: locale.setlocale(whole), lambda before: locale.setlocale(whole, before))
    if (numpy := modules.get("numpy")) and hasattr(numpy, "get_printoptions"):
        found["numpy's print options"] = Setting(
            numpy.get_printoptions, lambda before: numpy.set_printoptions(**before)
        )
    if (torch := modules.get("torch")) and hasattr(torch, "nn"):
        found |= _of_torch(torch)
    return found


def _of_torch(torch: Any) -> dict[str, Setting]:
    hooks = torch.nn.modules.module
    names = [name for name in vars(hooks) if name.startswith("_global_") and isinstance(getattr(hooks, name), dict)]
    autograd, found = torch._C._autograd, dict[str, Setting]()
    if hasattr(autograd, "_top_saved_tensors_default_hooks"):  # not in all releases
        found["torch's hooks of saved tensors"] = Setting(
            partial(autograd._top_saved_tensors_default_hooks, True), partial(_pop_hooks, autograd)
        )
    return found | {
        "torch's anomaly detection": Setting(torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        "torch's function modes": Setting(
            torch._C._len_torch_function_stack, partial(_pop, torch._C, "torch_function_stack")
        ),
        "torch's dispatch modes": Setting(
            torch._C._len_torch_dispatch_stack, partial(_pop, torch._C, "torch_dispatch_stack", None)
        ),
        "torch's global hooks": Setting(
            lambda: {name: dict(getattr(hooks, name)) for name in names},
            lambda before: _fill_all({name: getattr(hooks, name) for name in names}, before),
        ),
        "torch's default generator": _attribute(torch, "default_generator"),
        "torch.random's default generator": _attribute(torch.random, "default_generator"),
    }


def _pop(stacks: Any, name: str, *more: Any) -> None:
    *arguments, depth = more
    while getattr(stacks, f"_len_{name}")() > depth:
        getattr(stacks, f"_pop_{name}")(*arguments)


def _pop_hooks(autograd: Any, before: Any) -> None:
    while (now := autograd._top_saved_tensors_default_hooks(True)) is not None and now != before:
        autograd._pop_saved_tensors_default_hooks()


def _timers() -> list[bool]:
    return [signal.getitimer(one)[0] > 0 for one in TIMERS]


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


def _finders() -> list[Any]:
    """Return what finds modules, except what libraries add to find their own."""
    return [one for one in sys.meta_path if not _is_of_library(one)]


def _put_finders(before: list[Any]) -> None:
    sys.meta_path[:] = [*filter(_is_of_library, sys.meta_path), *before]


def _is_of_library(value: Any) -> bool:
    return _sort_of_class(value if isinstance(value, type) else type(value)) == "lib"


def _sort_of_class(kind: type) -> str:
    return sort_of(str(getattr(sys.modules.get(str(kind.__module__)), "__file__", None) or "<"))


def _reducers() -> dict[Any, Any]:
    """Return the functions of users' code that copy objects of others."""
    table = copyreg.dispatch_table.copy()
    codes = {kind: getattr(function, "__code__", None) for kind, function in table.items()}
    own = {kind for kind, code in codes.items() if code is not None and sort_of(code.co_filename) == "own"}
    return {kind: table[kind] for kind in own if _sort_of_class(kind) != "own"}


def _put_reducers(before: Mapping[Any, Any]) -> None:
    for kind in _reducers():
        copyreg.dispatch_table.pop(kind)
    copyreg.dispatch_table.update(before)


def _zone() -> tuple[Any, ...]:
    """Return the time zone of the C library: its names, and how far it is from UTC in January and in July."""
    return (time.tzname, *(time.localtime(seconds).tm_gmtoff for seconds in (0, 15_552_000)))


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value


def _has_room() -> bool:
    """Return whether a block can open a number of files."""
    opened: list[int] = []
    with suppress(OSError):
        while len(opened) < OPEN_FILES:
            opened += os.pipe()
    for descriptor in opened:
        os.close(descriptor)
    return len(opened) >= OPEN_FILES


def _wrong_expressions() -> list[Any]:
    """Return what is cached under another expression."""
    caches = [getattr(re, name, {}).copy() for name in ("_cache", "_cache2")]  # other threads compile meanwhile
    return [key for held in caches for key, one in held.items() if getattr(one, "pattern", key[1]) != key[1]]


def _decimal(get: Callable[[], Any]) -> tuple[Any, ...]:
    context = get()
    traps = [name for name, is_on in context.traps.items() if is_on]
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, traps


def _put_decimal(get: Callable[[], Any], before: tuple[Any, ...]) -> None:
    context = get()
    context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, traps = before
    for name in context.traps:
        context.traps[name] = name in traps


def _fill_all(now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    for name, held in before.items():
        _fill(now[name], held)


def _attribute(owner: Any, name: str) -> Setting:
    return Setting(lambda: getattr(owner, name), lambda before: setattr(owner, name, before))


def _attributes(owner: Any, name: str) -> Setting:
    """Return the setting of an object and its attributes."""
    one = getattr(owner, name)
    return Setting(lambda: {**vars(one)}, lambda before: _fill(vars(one), before))


def _content(owner: Any, name: str) -> Setting:
    """Return the setting of a list or a dict."""
    one = getattr(owner, name)
    return Setting(one.copy, lambda before: _fill(one, before))


def _fill(one: Any, before: Any) -> None:
    one.clear()
    one.extend(before) if isinstance(one, list) else one.update(before)
