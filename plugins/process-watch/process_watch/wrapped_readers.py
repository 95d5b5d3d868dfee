"""Wraps functions without audit events that read files or their status, start threads, or import modules."""

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
from process_watch.input_events import WRITE_FLAGS, begin, of_descriptor, watch_database
from process_watch.observed_inputs import Input, handle_event, is_observing, mark_of, note, note_path, reads, wrote
from process_watch.whose_code import caller_of, host, reader_of, set_host, sort_of, wrapping

#: Functions of Python that return the status of a file to user code, not only its existence.
STATUS_FUNCTIONS = ("stat", "lstat", "getmtime", "getatime", "getctime")
started_by: WeakKeyDictionary[Thread, Thread] = WeakKeyDictionary()  #: thread -> its starter
user_threads: WeakSet[Thread] = WeakSet()  #: threads started by user code, whatever they execute
unobserved: WeakSet[Thread] = WeakSet()  #: threads whose reads are not inputs; includes threads that they start
#: Special argument positions: the first, if `dir_fd` is given; none; all; the result.
IN_FOLDERS, ALWAYS, ANYWHERE, AFTER = -1, -2, -3, -4
IMPORT_NAME = opmap["IMPORT_NAME"]  # bytecode of import statements


def install(new: Host) -> None:
    """Start to observe this process permanently; a later host replaces the earlier one."""
    if new is not host():
        set_host(new)
    _install()


@cache
def _install() -> None:
    """Wrap functions in loaded modules now, and in other modules when they are imported."""
    begin()
    sys.meta_path.insert(0, _WrappingFinder())
    for name in WRAPPED.keys() & sys.modules.keys():
        _wrap_all(name)
    start = Thread.start

    @wraps(start)
    def recording(self: Thread) -> None:
        started_by[self] = current_thread()
        if sort_of(sys._getframe(1).f_code.co_filename) == "own":
            user_threads.add(self)
        if current_thread() in unobserved:
            unobserved.add(self)
            self.run = partial(_run_unobserved, self.run)  # type: ignore[method-assign]
        start(self)

    Thread.start = recording  # type: ignore[method-assign]
    bootstrap: Any = _bootstrap
    find, loading, after = bootstrap._find_and_load, imports.loading, imports.after

    def find_and_load(name: str, import_: Any) -> Any:
        names = loading.setdefault(get_ident(), [])
        names.append(name)
        try:
            module = find(name, import_)
        finally:
            names.pop()
        for note_imports in after:
            note_imports()
        return module

    code = find.__code__  # tracebacks omit frames with this name
    find_and_load.__code__ = find_and_load.__code__.replace(co_name=code.co_name, co_filename=code.co_filename)
    bootstrap._find_and_load = find_and_load


def _run_unobserved(run: Callable[[], None]) -> None:
    with reads():
        run()


class _WrappingFinder:
    """Wraps readers without events when their module is imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if is_observing():
            handle_event(_note_search, sys._getframe(1), name, path)
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
        holder = getattr(sys.modules[module], owner, None) if owner else sys.modules[module]
        if isinstance(holder, type | ModuleType) and hasattr(holder, name):
            _wrap(holder, name, place, handle)


def _wrap(owner: Any, name: str, place: int, handle: Callable[..., None]) -> None:
    """Wrap a function so that calls record the argument at a position or, if it is missing, the first argument."""
    function = getattr(owner, name)
    if hasattr(function, "notes"):
        return

    @wraps(function)
    def recording(*arguments: Any, **named: Any) -> Any:
        if is_observing():
            _record(handle, place, sys._getframe(1), arguments, named)
        result = function(*arguments, **named)
        if place == AFTER and is_observing():
            handle_event(handle, sys._getframe(1), result)
        return result

    recording.notes = True  # type: ignore[attr-defined]
    wrapping.add(recording.__code__)  # type: ignore[attr-defined]
    for supporting in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if function in supporting:
            supporting.add(recording)
    takes_instance = isinstance(getattr_static(owner, name), FunctionType | MethodDescriptorType)
    setattr(owner, name, recording if not isinstance(owner, type) or takes_instance else staticmethod(recording))


def _record(
    handle: Callable[..., None], place: int, frame: FrameType, arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    """Record a call of a wrapped function according to its argument position."""
    all_arguments = (*arguments, *named.values())
    if place == AFTER:
        return
    if place in (ALWAYS, ANYWHERE):
        handle_event(handle, frame, *(all_arguments if place == ANYWHERE else ()))
        return
    path = arguments[place] if len(arguments) > place >= 0 else next(iter(all_arguments), None)
    folder = named.get("dir_fd")
    if isinstance(path, str | bytes | os.PathLike) and (place != IN_FOLDERS or folder is not None):
        inside = path if folder is None else os.path.join(of_descriptor(folder), os.fsdecode(path))
        handle_event(handle, frame, inside, *arguments[1:])


def _note_status(frame: FrameType, path: Any, *more: Any) -> None:
    caller: FrameType | None = frame
    while caller and sort_of(caller.f_code.co_filename) == "std" and caller.f_code.co_name in STATUS_FUNCTIONS:
        caller = caller.f_back
    is_status = caller is not None and sort_of(caller.f_code.co_filename) == "own"
    note_path("status" if is_status else "existence", path, frame)


def _note_open_in_folder(frame: FrameType, path: Any, flags: int, *more: Any) -> None:
    """Record a file opened relative to an open folder, which the audit event does not report."""
    wrote(path) if flags & WRITE_FLAGS else note_path("file", path, frame)


def _note_file_read(frame: FrameType, path: Any, *more: Any) -> None:
    note_path("file", path, frame)


def _note_files_in(frame: FrameType, *arguments: Any) -> None:
    """Record the files named by arguments, including lists, and texts that contain several names."""
    for value in arguments:
        if isinstance(value, list | tuple):
            _note_files_in(frame, *value)
        elif isinstance(value, str | bytes | os.PathLike):
            text = os.fsdecode(value)
            for path in {text, *re.split(r"[,=\s]", text)}:
                if os.path.isfile(path):
                    note_path("file", path, frame)


def _note_temporary_folder(frame: FrameType, *more: Any) -> None:
    """Record the variables that determine the temporary folder if user code requests its name."""
    if sort_of(frame.f_code.co_filename) == "own":
        for name in ("TMPDIR", "TEMP", "TMP"):
            note(Input("variable", name), None, reader_of(frame)[0])


def _note_import(frame: FrameType, name: Any, *more: Any) -> None:
    """Record a module that user code imports by a computed name, even if already loaded."""
    who, kind = reader_of(frame)
    file = getattr(sys.modules.get(str(name)), "__file__", None)
    if who and file and sort_of(file) == "own":
        note(Input("module", file), mark_of(file), who)
    elif file and kind == "own" and sort_of(file) == "lib":
        note(Input("library", str(name).partition(".")[0]), None, who)


def _note_search(frame: FrameType, name: str, path: Any) -> None:
    """Record the absence or location of a module that user code looks up by a computed name."""
    who, kind = reader_of(frame, importing=True)
    caller = caller_of(frame)
    if kind != "own" or caller is None or caller.f_code.co_code[caller.f_lasti] == IMPORT_NAME:
        return
    spec = PathFinder.find_spec(name, path)
    file = spec and spec.origin
    if spec is None or (file and sort_of(file) == "lib"):
        note(Input("library", name if spec is None else name.partition(".")[0]), None, who)
    elif file and sort_of(file) == "own":
        note_path("existence", file, frame)


#: Readers without events: module -> (owner, function, argument position of the path or name, handler)
WRAPPED: dict[str, list[tuple[str, str, int, Callable[..., None]]]] = {
    "os": [
        *(("", name, 0, _note_status) for name in ("stat", "lstat", "access")),
        ("", "readlink", 0, lambda frame, path, *_: note_path("status", path, frame)),
        ("", "open", IN_FOLDERS, _note_open_in_folder),
    ],
    "tempfile": [("", name, ALWAYS, _note_temporary_folder) for name in ("gettempdir", "gettempdirb")],
    **{name: [("", "connect", AFTER, watch_database)] for name in ("sqlite3", "sqlite3.dbapi2")},
    "importlib": [("", "import_module", 0, _note_import)],
    "importlib.metadata": [("", "import_module", 0, _note_import)],
    "pydoc": [("", "safeimport", 0, _note_import)],
    "tokenizers": [("Tokenizer", "from_file", 0, _note_file_read), ("Tokenizer", "train", ANYWHERE, _note_files_in)],
    "tokenizers.models": [
        (owner, name, ANYWHERE, _note_files_in)
        for owner in ("BPE", "WordLevel", "WordPiece")
        for name in ("from_file", "read_file")
    ],
    **{
        name: [("", "safe_open", 0, _note_file_read)]
        for name in ("safetensors", "safetensors.torch", "safetensors.numpy")
    },
    "torch": [
        *((owner, "from_file", 0, _note_file_read) for owner in ("UntypedStorage", "")),
        ("jit", "load", ANYWHERE, _note_files_in),
    ],
    "lxml.etree": [
        *(("", name, ANYWHERE, _note_files_in) for name in ("parse", "iterparse")),
        ("ElementTree", "__new__", ANYWHERE, _note_files_in),
    ],
    "sentencepiece": [
        ("SentencePieceProcessor", "LoadFromFile", 1, _note_file_read),
        *(("SentencePieceTrainer", name, ANYWHERE, _note_files_in) for name in ("Train", "train")),
    ],
}
