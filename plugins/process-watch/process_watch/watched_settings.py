"""Settings of a process that a block may change for later blocks, with functions to read and restore them."""

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
QUIET = {FILTERS, "sys.path"}  #: settings that libraries change during their import
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
MIN_OPEN_FILES = 32  # number of files that a block must be able to open
LIMITS = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]


class ProcessSetting(NamedTuple):
    """A setting of the process: functions to read and to write it."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]


def settings() -> dict[str, ProcessSetting]:
    """Return the settings of this process that a block may change for later blocks."""
    settings_by_name = {
        "the signal handlers": ProcessSetting(_handlers, _put_handlers),
        "the timers": ProcessSetting(_timers, lambda _: [signal.setitimer(timer, 0) for timer in TIMERS]),
        "sys.path": _content(sys, "path"),
        "sys.meta_path": ProcessSetting(_finders, _put_finders),
        "sys.path_hooks": _content(sys, "path_hooks"),
        FILTERS: _content(warnings, "filters"),
        "gc.callbacks": _content(gc, "callbacks"),
        "copyreg.dispatch_table": ProcessSetting(_reducers, _put_reducers),
        "the JSON encoder": _attributes(json, "_default_encoder"),
        "the JSON decoder": _attributes(json, "_default_decoder"),
        **{f"sys.{name}": _attribute(sys, name) for name in ("stdin", "stdout", "stderr")},
        "the folder of temporary files": ProcessSetting(tempfile.gettempdir, partial(setattr, tempfile, "tempdir")),
        "logging.disable": ProcessSetting(lambda: logging.root.manager.disable, logging.disable),
        "the trace function": ProcessSetting(sys.gettrace, sys.settrace),
        "the profile function": ProcessSetting(sys.getprofile, sys.setprofile),
        "the recursion limit": ProcessSetting(sys.getrecursionlimit, sys.setrecursionlimit),
        "the switch interval": ProcessSetting(sys.getswitchinterval, sys.setswitchinterval),
        "the maximum number of digits of integers": ProcessSetting(
            sys.get_int_max_str_digits, sys.set_int_max_str_digits
        ),
        "garbage collection": ProcessSetting(lambda: (gc.isenabled(), gc.get_threshold()), _put_collection),
        ENVIRONMENT: ProcessSetting(lambda: {**os.environ}, _put_environment),
        "the time zone": ProcessSetting(_zone, lambda _: time.tzset()),  # after the environment variable TZ
        "the umask": ProcessSetting(_umask, os.umask),
        "the resource limits": ProcessSetting(
            lambda: [*map(resource.getrlimit, LIMITS)], lambda before: [*map(resource.setrlimit, LIMITS, before)]
        ),
        "the cache of re": ProcessSetting(_wrong_cache_entries, lambda _: re.purge()),
        "the number of free file descriptors": ProcessSetting(_can_open_files, lambda _: None),
        **{name: ProcessSetting(*functions) for name, functions in host().settings().items()},
    }
    if hasattr(os, "sched_getaffinity"):
        settings_by_name["the CPU affinity"] = ProcessSetting(
            lambda: os.sched_getaffinity(0), lambda before: os.sched_setaffinity(0, before)
        )
    return settings_by_name | imported_settings()


def imported_settings() -> dict[str, ProcessSetting]:
    """Return the settings of imported modules."""
    settings_by_name, modules = {}, sys.modules
    if socket := modules.get("socket"):
        settings_by_name["the default timeout of sockets"] = ProcessSetting(
            socket.getdefaulttimeout, socket.setdefaulttimeout
        )
    if decimal := modules.get("decimal"):
        for name, get in {
            "the decimal context": decimal.getcontext,
            "decimal.DefaultContext": lambda: decimal.DefaultContext,
        }.items():
            settings_by_name[name] = ProcessSetting(partial(_decimal, get), partial(_put_decimal, get))
    if locale := modules.get("locale"):
        whole = partial(locale.setlocale, locale.LC_ALL)
        settings_by_name["the locale"] = ProcessSetting(whole, whole)
    if (numpy := modules.get("numpy")) and hasattr(numpy, "get_printoptions"):
        settings_by_name["numpy's print options"] = ProcessSetting(
            numpy.get_printoptions, lambda before: numpy.set_printoptions(**before)
        )
    if (torch := modules.get("torch")) and hasattr(torch, "nn"):
        settings_by_name |= _of_torch(torch)
    return settings_by_name


def _of_torch(torch: Any) -> dict[str, ProcessSetting]:
    modules = torch.nn.modules.module, sys.modules["torch.optim.optimizer"]
    hooks = {
        f"{module.__name__}.{name}": value
        for module in modules for name, value in vars(module).items()
        if name.startswith("_global_") and isinstance(value, dict)
    }  # fmt: skip
    autograd, saved_tensor_hooks = torch._C._autograd, dict[str, ProcessSetting]()
    if hasattr(autograd, "_top_saved_tensors_default_hooks"):  # missing in some releases
        saved_tensor_hooks["torch's hooks of saved tensors"] = ProcessSetting(
            partial(autograd._top_saved_tensors_default_hooks, True), partial(_pop_hooks, autograd)
        )
    return saved_tensor_hooks | {
        "torch's anomaly detection": ProcessSetting(torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        "torch's function modes": ProcessSetting(
            torch._C._len_torch_function_stack, partial(_pop, torch._C, "torch_function_stack")
        ),
        "torch's dispatch modes": ProcessSetting(
            torch._C._len_torch_dispatch_stack, partial(_pop, torch._C, "torch_dispatch_stack", None)
        ),
        "torch's global hooks": ProcessSetting(
            lambda: {name: dict(functions) for name, functions in hooks.items()}, partial(_fill_all, hooks)
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
    return [signal.getitimer(timer)[0] > 0 for timer in TIMERS]


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
    """Return the module finders, except finders that libraries add for their own modules."""
    return [finder for finder in sys.meta_path if not _is_of_library(finder)]


def _put_finders(before: list[Any]) -> None:
    sys.meta_path[:] = [*filter(_is_of_library, sys.meta_path), *before]


def _is_of_library(value: Any) -> bool:
    return _sort_of_class(value if isinstance(value, type) else type(value)) == "lib"


def _sort_of_class(kind: type) -> str:
    return sort_of(str(getattr(sys.modules.get(str(kind.__module__)), "__file__", None) or "<"))


def _reducers() -> dict[Any, Any]:
    """Return the reduce functions that user code defines for classes outside user code."""
    table = copyreg.dispatch_table.copy()
    codes = {kind: getattr(function, "__code__", None) for kind, function in table.items()}
    of_users = {kind for kind, code in codes.items() if code is not None and sort_of(code.co_filename) == "own"}
    return {kind: table[kind] for kind in of_users if _sort_of_class(kind) != "own"}


def _put_reducers(before: Mapping[Any, Any]) -> None:
    for kind in _reducers():
        copyreg.dispatch_table.pop(kind)
    copyreg.dispatch_table.update(before)


def _zone() -> tuple[Any, ...]:
    """Return the time zone of the C library: names, and offsets from UTC in January and July."""
    return (time.tzname, *(time.localtime(seconds).tm_gmtoff for seconds in (0, 15_552_000)))


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value


def _can_open_files() -> bool:
    """Return whether a block can open `MIN_OPEN_FILES` files."""
    opened: list[int] = []
    with suppress(OSError):
        while len(opened) < MIN_OPEN_FILES:
            opened += os.pipe()
    for descriptor in opened:
        os.close(descriptor)
    return len(opened) >= MIN_OPEN_FILES


def _wrong_cache_entries() -> list[Any]:
    """Return the cache entries stored under a wrong pattern."""
    caches = [getattr(re, name, {}).copy() for name in ("_cache", "_cache2")]  # copies, because other threads compile
    return [key for cache in caches for key, entry in cache.items() if getattr(entry, "pattern", key[1]) != key[1]]


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
    for name, content in before.items():
        _fill(now[name], content)


def _attribute(owner: Any, name: str) -> ProcessSetting:
    return ProcessSetting(lambda: getattr(owner, name), lambda before: setattr(owner, name, before))


def _attributes(owner: Any, name: str) -> ProcessSetting:
    """Return a setting that consists of the attributes of an object."""
    value = getattr(owner, name)
    return ProcessSetting(lambda: {**vars(value)}, lambda before: _fill(vars(value), before))


def _content(owner: Any, name: str) -> ProcessSetting:
    """Return a setting that consists of the content of a list or a dict."""
    container = getattr(owner, name)
    return ProcessSetting(container.copy, lambda before: _fill(container, before))


def _fill(container: Any, before: Any) -> None:
    container.clear()
    container.extend(before) if isinstance(container, list) else container.update(before)
