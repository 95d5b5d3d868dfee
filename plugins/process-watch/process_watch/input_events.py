"""Notes the inputs that audit events and `os.environ` report.

These are opened files, listed folders, imports, child processes, connections and variables.
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
    asked_for_input,
    assigned,
    bodies,
    escape,
    handle_event,
    mark_of,
    note,
    note_path,
    noted,
    observe,
    was_before,
    wrote,
)
from process_watch.whose_code import (
    is_import_system,
    is_known,
    python_modules,
    quotes,
    reader_of,
    sort_of,
    within,
    wrapping,
)

BODY = ("__code__", "__defaults__", "__kwdefaults__", "__bases__")  # of functions and classes, as events name them
ATTACH = 24  # sqlite3.SQLITE_ATTACH
WRITING = os.O_WRONLY | os.O_TRUNC | os.O_EXCL


def begin() -> None:
    """Begin to observe this process, for good."""
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


def _opened(frame: FrameType, path: Any, mode: Any = None, flags: int = 0, *more: Any) -> None:
    if isinstance(path, int):
        if path == 0 and sort_of(frame.f_code.co_filename) == "own":  # Python opens it in new processes
            escape(frame, STANDARD_INPUT, "refused")
        return
    if not flags & WRITING:
        _note_file(path, frame)
    else:
        wrote(path)


def of_descriptor(path: Any) -> Any:
    """Return the path of an open folder if given its descriptor; anything else unchanged."""
    try:
        return _read_link(f"/proc/self/fd/{path}") if isinstance(path, int) else path
    except OSError:  # no such descriptor, or no such system
        return path


def _linked(frame: FrameType, source: Any, target: Any, *more: Any) -> None:
    """Note a file that has another name now; a symbolic link names it from its own folder."""
    note_path("file", os.path.join(os.path.dirname(absolute(target)), os.fsdecode(source)), frame)
    wrote(target)


def _renamed(frame: FrameType, source: Any, target: Any, *more: Any) -> None:
    """Note a file that users' code moves, unless a child or a library has written it since the block began."""
    mark = mark_of(absolute(source))
    if was_before(mark) and reader_of(frame)[1] == "own":
        note_path("file", source, frame)
    wrote(target)


def connected_database(frame: FrameType, name: Any) -> None:
    """Note the file of a database by its name or URI; a database in memory has none."""
    path = os.fsdecode(name).removeprefix("file:").partition("?")[0]
    if path and not path.startswith(":"):
        note_path("file", path, frame)


def _listed(frame: FrameType, path: Any = None, *more: Any) -> None:
    if not is_import_system(frame):
        note_path("listing", "." if path is None else of_descriptor(path), frame)


def _scanned(frame: FrameType, path: Any = None, *more: Any) -> None:
    """Note a listing; entries that users' code has itself tell it the status of files without an event."""
    _listed(frame, path)
    if sort_of(frame.f_code.co_filename) == "own":
        note_path("entries", "." if path is None else of_descriptor(path), frame)


def _imported(frame: FrameType, name: str, *more: Any) -> None:
    who, kind = reader_of(frame, importing=True)
    if kind == "own":
        note(Input("library", name.partition(".")[0]), None, who)


def _connected(frame: FrameType, socket: Any, address: Any) -> None:
    if isinstance(address, tuple):
        escape(frame, f"a connection to {address[0]}:{address[1]}", "refused")
    elif address is not None:  # to a process of this machine, such as one that loads data
        escape(frame, "a connection to another process")


def _bound(frame: FrameType, socket: Any, address: Any) -> None:
    if isinstance(address, tuple):
        _ask(frame, f"connections at {address[0]}:{address[1]}")


def _resolved(frame: FrameType, host: Any = None, *more: Any) -> None:
    """Note a name that is resolved; a number or the name of this machine leads nowhere else."""
    name = host.decode(errors="replace") if isinstance(host, bytes) else str(host or "")
    if name and name != "localhost" and ":" not in name and not name.replace(".", "").isdigit():
        _ask(frame, f"the address of {name}")


def _ask(frame: FrameType, what: str) -> None:
    """Refuse what users' code itself asks of others; what a library asks is unobserved."""
    escape(frame, what, "refused" if reader_of(frame)[1] == "own" else "unobserved")


def watch_database(frame: FrameType, connection: Any) -> None:
    """Note the databases that users' code attaches to one."""
    if reader_of(frame)[1] == "own":
        connection.set_authorizer(_attached)


def _attached(action: int, name: str | None, *more: Any) -> int:
    if action == ATTACH and name is None:
        handle_event(escape, sys._getframe(1), "an attached database")
    elif action == ATTACH:
        handle_event(connected_database, sys._getframe(1), name)
    return 0  # allowed


def _child(frame: FrameType, *arguments: Any) -> None:
    if "platform" in python_modules(frame) and reader_of(frame)[1] != "own":
        return  # a library asks which machine this is
    what = arguments[0] if arguments else ""
    name = os.path.basename(str(what if what and not isinstance(what, list) else "")).partition(" ")[0]
    escape(frame, f"a child process{f' ({name})' if name else ''}")


def _library(frame: FrameType, name: Any, *more: Any) -> None:
    if reader_of(frame)[1] == "own":
        escape(frame, f"compiled code, called by ctypes{f' ({name})' if name else ''}")
        if name and os.path.exists(name):
            note_path("file", name, frame)


def _note_body(owner: Any, name: str, value: Any) -> None:
    """Note what a function or a class had before code, defaults or bases are written."""
    if name in BODY and issubclass(type(owner), FunctionType | type) and hasattr(owner, name):
        bodies.setdefault((id(owner), name), (owner, getattr(owner, name)))


_HANDLERS: dict[str, Callable[..., None]] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _scanned,
    "import": _imported,
    "os.mkdir": lambda frame, path, *_: wrote(path),
    "os.rename": _renamed,
    "os.link": lambda frame, source, target, *_: _linked(frame, absolute(source), target),
    "os.symlink": _linked,
    "sqlite3.connect": connected_database,
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), _connected),
    "socket.bind": _bound,
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), _resolved),
    "ctypes.dlopen": _library,
    "builtins.input": asked_for_input,
    **dict.fromkeys(("subprocess.Popen", "os.posix_spawn", "os.spawn", "os.exec"), _child),
    **dict.fromkeys(("os.system", "os.fork", "os.forkpty", "pty.spawn"), lambda frame, *_: _child(frame)),
}


class _Environment(os._Environ):  # type: ignore[type-arg]
    """`os.environ`, which reports which variables are read."""

    def __getitem__(self, name: Any) -> Any:
        handle_event(_note_variable, sys._getframe(1), name)
        return super().__getitem__(name)

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, value)
        if reader_of(sys._getframe(1))[1] == "own":  # a library sets its own once for all
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
        every = noted(Input("variable", ALL_VARIABLES))
        if every is None or not who <= every.modules:
            note(Input("variable", os.fsdecode(name)), None, who)


def _note_file(path: Any, frame: FrameType) -> None:
    if not is_import_system(frame):
        if not quotes(frame):
            note_path("file", path, frame)
        return
    place = absolute(path)
    if is_known(place):
        return
    source = _source_of(place)
    note(Input("module", source), mark_of(source), reader_of(frame, importing=True)[0])


@cache
def _source_of(path: str) -> str:
    """Return the source of a compiled module, if the path is that of one."""
    try:
        return source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


_read_link = os.readlink
