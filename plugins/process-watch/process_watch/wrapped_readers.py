"""Wraps functions that read files or their status, start threads or import modules, and raise no audit events."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from dis import opmap
from functools import cache, partial, wraps
from importlib import _bootstrap
from importlib.machinery import PathFinder
from inspect import getattr_static
from threading import Thread, current_thread, get_ident
from types import FrameType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from process_watch.host import Host
from process_watch.importing import imports
from process_watch.input_events import WRITING, begin, of_descriptor, watch_database
from process_watch.observed_inputs import (
    Input,
    handle_event,
    is_observing,
    mark_of,
    note,
    note_path,
    reads,
    wrote,
)
from process_watch.whose_code import caller_of, host, reader_of, set_host, sort_of, wrapping

#: Functions of Python that hand users' code the status of a file, not only whether it is there.
TELLING = ("stat", "lstat", "getmtime", "getatime", "getctime")
started_by: WeakKeyDictionary[Thread, Thread] = WeakKeyDictionary()  #: thread -> the one that started it
of_parts: WeakSet[Thread] = WeakSet()  #: those that a line of users' code starts, whatever they execute
unobserved: WeakSet[Thread] = WeakSet()  #: whose reads are no inputs, and those that these start
#: In place of a place: the first, where `dir_fd` is given; no path; all; the result.
IN_FOLDERS, ALWAYS, ANYWHERE, AFTER = -1, -2, -3, -4
IMPORT_NAME = opmap["IMPORT_NAME"]  # of code whose `import` names a module, as its own text does


def install(new: Host) -> None:
    """Begin to observe this process, for good; another host takes the place of the one before."""
    if new is not host():
        set_host(new)
    _install()


@cache
def _install() -> None:
    """Wrap what is loaded, and the rest when it is imported."""
    begin()
    sys.meta_path.insert(0, _WrappingFinder())
    for name in WRAPPED.keys() & sys.modules.keys():
        _wrap_all(name)
    start = Thread.start

    @wraps(start)
    def noting(self: Thread) -> None:
        started_by[self] = current_thread()
        if sort_of(sys._getframe(1).f_code.co_filename) == "own":
            of_parts.add(self)
        if current_thread() in unobserved:
            unobserved.add(self)
            self.run = partial(_run_unobserved, self.run)  # type: ignore[method-assign]
        start(self)

    Thread.start = noting  # type: ignore[method-assign]
    bootstrap: Any = _bootstrap
    find, loading, after = bootstrap._find_and_load, imports.loading, imports.after

    def find_and_load(name: str, import_: Any) -> Any:
        names = loading.setdefault(get_ident(), [])
        names.append(name)
        try:
            found = find(name, import_)
        finally:
            names.pop()
        for note_imports in after:
            note_imports()
        return found

    code = find.__code__  # as which tracebacks leave it out
    find_and_load.__code__ = find_and_load.__code__.replace(co_name=code.co_name, co_filename=code.co_filename)
    bootstrap._find_and_load = find_and_load


def _run_unobserved(run: Callable[[], None]) -> None:
    with reads():
        run()


class _WrappingFinder:
    """Wraps what reads without an event when its module is imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if is_observing():
            handle_event(_sought, sys._getframe(1), name, path)
        spec = PathFinder.find_spec(name, path, target) if name in WRAPPED else None
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                _wrap_all(name)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _wrap_all(module: str) -> None:
    for owner, name, place, handle in WRAPPED[module]:
        found = getattr(sys.modules[module], owner, None) if owner else sys.modules[module]
        if isinstance(found, type | ModuleType) and hasattr(found, name):
            _wrap(found, name, place, handle)


def _wrap(owner: Any, name: str, place: int, handle: Callable[..., None]) -> None:
    """Have a function note its argument at a place, if there is one; its first by default."""
    function = getattr(owner, name)
    if hasattr(function, "notes"):
        return

    @wraps(function)
    def noting(*arguments: Any, **named: Any) -> Any:
        if is_observing():
            _tell(handle, place, sys._getframe(1), arguments, named)
        result = function(*arguments, **named)
        if place == AFTER and is_observing():
            handle_event(handle, sys._getframe(1), result)
        return result

    noting.notes = True  # type: ignore[attr-defined]
    wrapping.add(noting.__code__)  # type: ignore[attr-defined]
    for supporting in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if function in supporting:
            supporting.add(noting)
    takes_instance = isinstance(getattr_static(owner, name), FunctionType | MethodDescriptorType)
    setattr(owner, name, noting if not isinstance(owner, type) or takes_instance else staticmethod(noting))


def _tell(
    handle: Callable[..., None], place: int, frame: FrameType, arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    """Have a call of a wrapped function noted by what its place stands for."""
    every = (*arguments, *named.values())
    if place == AFTER:
        return
    if place in (ALWAYS, ANYWHERE):
        handle_event(handle, frame, *(every if place == ANYWHERE else ()))
        return
    path, folder = arguments[place] if len(arguments) > place >= 0 else next(iter(every), None), named.get("dir_fd")
    if isinstance(path, str | bytes | os.PathLike) and (place != IN_FOLDERS or folder is not None):
        inside = path if folder is None else os.path.join(of_descriptor(folder), os.fsdecode(path))
        handle_event(handle, frame, inside, *arguments[1:])


def _asked(frame: FrameType, path: Any, *more: Any) -> None:
    asker: FrameType | None = frame
    while asker is not None and sort_of(asker.f_code.co_filename) == "std" and asker.f_code.co_name in TELLING:
        asker = asker.f_back
    told = asker is not None and sort_of(asker.f_code.co_filename) == "own"
    note_path("status" if told else "existence", path, frame)


def _opened_in(frame: FrameType, path: Any, flags: int, *more: Any) -> None:
    """Note what is opened in an open folder, of which the event of the opening does not tell."""
    if not flags & WRITING:
        note_path("file", path, frame)
    else:
        wrote(path)


def _read_natively(frame: FrameType, path: Any, *more: Any) -> None:
    note_path("file", path, frame)


def _read_any(frame: FrameType, *arguments: Any) -> None:
    """Note the files that arguments name, be it in lists or in one text with others."""
    for value in arguments:
        if isinstance(value, list | tuple):
            _read_any(frame, *value)
        elif isinstance(value, str | bytes | os.PathLike):
            text = os.fsdecode(value)
            for path in {text, *re.split(r"[,=\s]", text)}:
                if os.path.isfile(path):
                    note_path("file", path, frame)


def _asked_for_temporary(frame: FrameType, *more: Any) -> None:
    """Note the variables of the folder of temporary files where its name is asked for, not a file in it."""
    if sort_of(frame.f_code.co_filename) == "own":
        for name in ("TMPDIR", "TEMP", "TMP"):
            note(Input("variable", name), None, reader_of(frame)[0])


def _named(frame: FrameType, name: Any, *more: Any) -> None:
    """Note a module that users' code imports by a computed name, also if it is loaded already."""
    who, kind = reader_of(frame)
    file = getattr(sys.modules.get(str(name)), "__file__", None)
    if who and file and sort_of(file) == "own":
        note(Input("module", file), mark_of(file), who)
    elif file and kind == "own" and sort_of(file) == "lib":
        note(Input("library", str(name).partition(".")[0]), None, who)


def _sought(frame: FrameType, name: str, path: Any) -> None:
    """Note a module that users' code looks for by a computed name: that there is none, or where it is."""
    who, kind = reader_of(frame, importing=True)
    asker = caller_of(frame)
    if kind != "own" or asker is None or asker.f_code.co_code[asker.f_lasti] == IMPORT_NAME:
        return
    spec = PathFinder.find_spec(name, path)
    file = spec and spec.origin
    if spec is None or (file and sort_of(file) == "lib"):
        note(Input("library", name if spec is None else name.partition(".")[0]), None, who)
    elif file and sort_of(file) == "own":
        note_path("existence", file, frame)


#: What reads without an event: module -> owner in it, function, place of the path or name, and what notes it.
WRAPPED: dict[str, list[tuple[str, str, int, Callable[..., None]]]] = {
    "os": [
        *(("", name, 0, _asked) for name in ("stat", "lstat", "access")),
        ("", "readlink", 0, lambda frame, path, *_: note_path("status", path, frame)),
        ("", "open", IN_FOLDERS, _opened_in),
    ],
    "tempfile": [("", name, ALWAYS, _asked_for_temporary) for name in ("gettempdir", "gettempdirb")],
    **{name: [("", "connect", AFTER, watch_database)] for name in ("sqlite3", "sqlite3.dbapi2")},
    "importlib": [("", "import_module", 0, _named)],
    "importlib.metadata": [("", "import_module", 0, _named)],
    "pydoc": [("", "safeimport", 0, _named)],
    "tokenizers": [("Tokenizer", "from_file", 0, _read_natively), ("Tokenizer", "train", ANYWHERE, _read_any)],
    "tokenizers.models": [
        (owner, name, ANYWHERE, _read_any)
        for owner in ("BPE", "WordLevel", "WordPiece")
        for name in ("from_file", "read_file")
    ],
    **{
        name: [("", "safe_open", 0, _read_natively)]
        for name in ("safetensors", "safetensors.torch", "safetensors.numpy")
    },
    "torch": [
        ("UntypedStorage", "from_file", 0, _read_natively),
        ("", "from_file", 0, _read_natively),
        ("jit", "load", ANYWHERE, _read_any),
    ],
    "lxml.etree": [
        *(("", name, ANYWHERE, _read_any) for name in ("parse", "iterparse")),
        ("ElementTree", "__new__", ANYWHERE, _read_any),
    ],
    "sentencepiece": [
        ("SentencePieceProcessor", "LoadFromFile", 1, _read_natively),
        *(("SentencePieceTrainer", name, ANYWHERE, _read_any) for name in ("Train", "train")),
    ],
}
