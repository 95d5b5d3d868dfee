"""Records inputs reported by audit events and `os.environ`.

Inputs are opened files, listed folders, imports, child processes, connections and variables.
"""

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import source_from_cache
from types import FrameType, FunctionType
from typing import Any

from process_watch.observed_inputs import (
    ALL_VARIABLES,
    STANDARD_INPUT,
    Input,
    absolute,
    assigned,
    bodies,
    escape,
    handle_event,
    is_older_than_block,
    mark_of,
    note,
    note_path,
    observe,
    reading_of,
    refuse_input,
    wrote,
)
from process_watch.whose_code import (
    is_import_system,
    is_not_user_code,
    is_showing_source,
    python_modules,
    reader_of,
    sort_of,
    within,
    wrapping,
)

#: Attributes of functions and classes, as named by events.
BODY = ("__code__", "__defaults__", "__kwdefaults__", "__bases__")
ATTACH = 24  # sqlite3.SQLITE_ATTACH
WRITE_FLAGS = os.O_WRONLY | os.O_TRUNC | os.O_EXCL


def begin() -> None:
    """Start to observe this process permanently."""
    sys.addaudithook(_audit)
    for environment in (os.environ, os.environb):
        environment.__class__ = _Environment
    within.add(observe.__code__)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "object.__setattr__":
        _note_body(*arguments)
    elif (handle := _HANDLERS.get(event)) is not None:
        frame = sys._getframe(1)
        handle_event(handle, (frame.f_code in wrapping and frame.f_back) or frame, *arguments)


def _handle_open(frame: FrameType, path: Any, mode: Any = None, flags: int = 0, *more: Any) -> None:
    if isinstance(path, int):
        if path == 0 and sort_of(frame.f_code.co_filename) == "own":  # new Python processes open it
            escape(frame, STANDARD_INPUT, "refused")
        return
    if not flags & WRITE_FLAGS:
        _note_file(path, frame)
    else:
        wrote(path)


def of_descriptor(path: Any) -> Any:
    """Return the path of an open folder, given its descriptor; return any other argument unchanged."""
    try:
        return _read_link(f"/proc/self/fd/{path}") if isinstance(path, int) else path
    except OSError:  # no such descriptor, or no /proc
        return path


def _handle_link(frame: FrameType, source: Any, target: Any, *more: Any) -> None:
    """Record a file to which a link is created; symbolic links are relative to their own folder."""
    note_path("file", os.path.join(os.path.dirname(absolute(target)), os.fsdecode(source)), frame)
    wrote(target)


def _handle_rename(frame: FrameType, source: Any, target: Any, *more: Any) -> None:
    """Record a file that user code moves, unless it was written since the block began."""
    mark = mark_of(absolute(source))
    if is_older_than_block(mark) and reader_of(frame)[1] == "own":
        note_path("file", source, frame)
    wrote(target)


def note_database(frame: FrameType, name: Any) -> None:
    """Record the file of a database, given its name or URI; in-memory databases have no file."""
    path = os.fsdecode(name).removeprefix("file:").partition("?")[0]
    if path and not path.startswith(":"):
        note_path("file", path, frame)


def _handle_listing(frame: FrameType, path: Any = None, *more: Any) -> None:
    if not is_import_system(frame):
        note_path("listing", "." if path is None else of_descriptor(path), frame)


def _handle_scan(frame: FrameType, path: Any = None, *more: Any) -> None:
    """Record a listing and, for user code, also its entries, whose status can be read without an event."""
    _handle_listing(frame, path)
    if sort_of(frame.f_code.co_filename) == "own":
        note_path("entries", "." if path is None else of_descriptor(path), frame)


def _handle_import(frame: FrameType, name: str, *more: Any) -> None:
    who, kind = reader_of(frame, importing=True)
    if kind == "own":
        note(Input("library", name.partition(".")[0]), None, who)


def _handle_connect(frame: FrameType, socket: Any, address: Any) -> None:
    if isinstance(address, tuple):
        escape(frame, f"a connection to {address[0]}:{address[1]}", "refused")
    elif address is not None:  # to a local process, such as a data loader
        escape(frame, "a connection to another process")


def _handle_bind(frame: FrameType, socket: Any, address: Any) -> None:
    if isinstance(address, tuple):
        _note_request(frame, f"connections at {address[0]}:{address[1]}")


def _handle_resolve(frame: FrameType, host: Any = None, *more: Any) -> None:
    """Record a resolved host name, except numeric addresses and localhost."""
    name = host.decode(errors="replace") if isinstance(host, bytes) else str(host or "")
    if name and name != "localhost" and ":" not in name and not name.replace(".", "").isdigit():
        _note_request(frame, f"the address of {name}")


def _note_request(frame: FrameType, what: str) -> None:
    """Refuse requests to other machines by user code; record requests by libraries as unobserved."""
    escape(frame, what, "refused" if reader_of(frame)[1] == "own" else "unobserved")


def watch_database(frame: FrameType, connection: Any) -> None:
    """Record the databases that user code attaches to a connection."""
    if reader_of(frame)[1] == "own":
        connection.set_authorizer(_authorize)


def _authorize(action: int, name: str | None, *more: Any) -> int:
    if action == ATTACH and name is None:
        handle_event(escape, sys._getframe(1), "an attached database")
    elif action == ATTACH:
        handle_event(note_database, sys._getframe(1), name)
    return 0  # SQLITE_OK


def _handle_child(frame: FrameType, *arguments: Any) -> None:
    if "platform" in python_modules(frame) and reader_of(frame)[1] != "own":
        return  # a library identifies the machine
    what = arguments[0] if arguments else ""
    name = os.path.basename(str(what if what and not isinstance(what, list) else "")).partition(" ")[0]
    escape(frame, f"a child process{f' ({name})' if name else ''}")


def _handle_library(frame: FrameType, name: Any, *more: Any) -> None:
    if reader_of(frame)[1] == "own":
        escape(frame, f"compiled code, called by ctypes{f' ({name})' if name else ''}")
        if name and os.path.exists(name):
            note_path("file", name, frame)


def _note_body(owner: Any, name: str, value: Any) -> None:
    """Save code, defaults or bases of a function or a class before they are overwritten."""
    if name in BODY and issubclass(type(owner), FunctionType | type) and hasattr(owner, name):
        bodies.setdefault((id(owner), name), (owner, getattr(owner, name)))


_HANDLERS: dict[str, Callable[..., None]] = {
    "open": _handle_open,
    "os.listdir": _handle_listing,
    "os.scandir": _handle_scan,
    "import": _handle_import,
    "os.mkdir": lambda frame, path, *_: wrote(path),
    "os.rename": _handle_rename,
    "os.link": lambda frame, source, target, *_: _handle_link(frame, absolute(source), target),
    "os.symlink": _handle_link,
    "sqlite3.connect": note_database,
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), _handle_connect),
    "socket.bind": _handle_bind,
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), _handle_resolve),
    "ctypes.dlopen": _handle_library,
    "builtins.input": refuse_input,
    **dict.fromkeys(("subprocess.Popen", "os.posix_spawn", "os.spawn", "os.exec"), _handle_child),
    **dict.fromkeys(("os.system", "os.fork", "os.forkpty", "pty.spawn"), lambda frame, *_: _handle_child(frame)),
}


class _Environment(os._Environ):  # type: ignore[type-arg]
    """`os.environ` that reports which variables are read."""

    def __getitem__(self, name: Any) -> Any:
        handle_event(_note_variable, sys._getframe(1), name)
        return super().__getitem__(name)

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, value)
        if reader_of(sys._getframe(1))[1] == "own":  # libraries set their own variables only once
            assigned.add(os.fsdecode(name))

    def __delitem__(self, name: Any) -> None:
        super().__delitem__(name)
        if reader_of(sys._getframe(1))[1] == "own":
            assigned.add(os.fsdecode(name))

    def __iter__(self) -> Iterator[Any]:
        handle_event(_note_variable, sys._getframe(1), ALL_VARIABLES)
        return super().__iter__()


def _note_variable(frame: FrameType, name: str | bytes) -> None:
    who, kind = reader_of(frame)
    if kind == "own" and os.fsdecode(name) not in assigned and "tempfile" not in python_modules(frame):
        all_variables = reading_of(Input("variable", ALL_VARIABLES))
        if all_variables is None or not who <= all_variables.modules:
            note(Input("variable", os.fsdecode(name)), None, who)


def _note_file(path: Any, frame: FrameType) -> None:
    if not is_import_system(frame):
        if not is_showing_source(frame):
            note_path("file", path, frame)
        return
    place = absolute(path)
    if is_not_user_code(place):
        return
    source = _source_of(place)
    note(Input("module", source), mark_of(source), reader_of(frame, importing=True)[0])


@cache
def _source_of(path: str) -> str:
    """Return the source path of a compiled module; return other paths unchanged."""
    try:
        return source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


_read_link = os.readlink
