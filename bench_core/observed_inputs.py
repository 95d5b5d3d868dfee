"""Observes undeclared inputs of a process: files, folders, variables, libraries; and names what it cannot observe.

Audit events report opened files, listed folders, imports, child processes and connections; `os.environ` reports its
reads; `os.stat` and readers in compiled code, which raise no events, are wrapped. The inputs of a stage are those
reported while it runs, and those that its modules read earlier in this process, since they may have kept them.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from threading import local
from types import FrameType, FunctionType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from bench_core.errors import PluginError
from bench_core.whose_code import (
    CORE,
    PYTHON,
    imports,
    is_being_imported,
    is_own,
    module_of,
    python_modules,
    quotes,
    reader_of,
    sort_of,
    within,
    wrapping,
)

T = TypeVar("T")

Sort: TypeAlias = Literal[
    "file",
    "declared",
    "module",
    "existence",
    "status",
    "listing",
    "variable",
    "library",
    "unobserved",
    "refused",
]
Mark: TypeAlias = tuple[int, ...] | None  #: the status of a file when it was read; None of all else

ALL_VARIABLES = "*"
STANDARD_INPUT = "standard input"
ZONES = ("/usr/share/zoneinfo/", "/usr/lib/locale/")
SYSTEM = ("/dev/", "/proc/", "/sys/")
#: Files of the system that libraries read, and that change no result.
HARMLESS = ("/usr/share/", "/usr/lib/", "/etc/", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero", "/dev/fd/")
BODY = ("__code__", "__defaults__", "__kwdefaults__", "__bases__")  # of functions and classes, as events name them
WRITING = os.O_WRONLY | os.O_TRUNC | os.O_EXCL


class Input(NamedTuple):
    """An input that was read: a path, a variable or a library; or one that is `unobserved` or `refused`.

    Of a path, its content was read, or its `status`: times, mode and target of a link. `reads` makes it `declared`.
    """

    sort: Sort
    name: str


class Reading(NamedTuple):
    """When and by whom something was read."""

    modules: set[str]  # in whose code; empty if in none of a part
    mark: Mark
    relative: str  # the path as it was given, if it was relative to the working directory of stages


class Refused(PluginError):
    """A stage read an input that cannot be read again."""


class _State(local):
    busy = False  # with an event, whose own reads are not observed
    declared = False  # inside of `reads`


_state = _State()
_readings: dict[Input, Reading] = {}  # of this process, but for the stage that is performed
_current: dict[Input, Reading] | None = None  # of the stage that is performed
_written: set[str] = set()  # by that stage
_ignored: tuple[str, ...] = ()  # prefixes of paths
_above: set[str] = set()  # folders in which these are
_home = ""  # the working directory of stages
_began = 0  # when the stage began, in nanoseconds since 1970
bodies: dict[tuple[int, str], tuple[Any, Any]] = {}  #: id, attribute -> function or class, and what it had before
assigned: set[str] = set()  #: environment variables that the code of parts set or removed


@contextmanager
def reads(*paths: str | os.PathLike[str]) -> Iterator[None]:
    """Declare files that a block reads unobserved by Python, such as in a child process or in compiled code.

    The files at `paths` count as inputs of the stage. Child processes, connections and variables of the block do not:
    settings in the key, or `paths`, must determine their results.
    """
    before, _state.declared = _state.declared, True
    try:
        for path in paths if _current is not None else ():
            note_path("declared", os.fspath(path), sys._getframe())
        yield
    finally:
        _state.declared = before


def observe(work: Callable[[], T], found: dict[Input, Reading], home: str, *ignored: Path) -> T:
    """Return the result of `work`; note its inputs in `found`, except those in ignored folders."""
    global _current, _ignored, _above, _home, _began
    ways = (os.path.abspath, os.path.realpath)
    _began = time.time_ns()
    _home, _ignored = home, tuple(f"{way(one)}{os.sep}" for one in ignored for way in ways)
    places = [Path(way(one)) for one in ignored for way in ways]
    _above = {f"{parent}{os.sep}" for one in places for parent in (one, *one.parents)}
    _current = found
    _written.clear()
    children = _started_children()
    try:
        with _without_standard_input():
            return work()
    finally:
        if _started_children() != children:
            note(Input("unobserved", "a child process"), None, set())
        for path in _written.copy():  # which the next run will find, where this one found none
            if (asked := found.get(Input("existence", path))) and (mark := mark_of(path)):
                found.setdefault(Input("file", path), asked._replace(mark=mark))
        _current = None


@contextmanager
def _without_standard_input() -> Iterator[None]:
    """Refuse reads of standard input, and have none in it but a terminal, at which somebody may debug."""
    before, kept = sys.stdin, None
    with suppress(OSError):
        if not os.isatty(0):
            kept, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
    sys.stdin = before and _Input(before)
    try:
        yield
    finally:
        sys.stdin = before
        if kept is not None:
            os.dup2(kept, 0)
            os.close(kept)


class _Input:
    """Standard input while a stage is performed: a part that reads it is refused; debuggers read it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "readline", "readlines", "buffer"):
            _asked_for_input(sys._getframe(1))
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        _asked_for_input(sys._getframe(1))
        return iter(self._stream)


def _asked_for_input(frame: FrameType, *arguments: Any) -> None:
    if not python_modules(frame) & {"pdb", "bdb"}:
        escape(frame, STANDARD_INPUT, "refused")


def is_observing() -> bool:
    """Return whether a stage is performed in this process."""
    return _current is not None


def remember(found: Mapping[Input, Reading]) -> None:
    """Remember inputs for later stages of this process, since the modules that read them may have kept them."""
    for one, reading in found.items():
        known = _readings.get(one)
        _readings[one] = reading._replace(modules=reading.modules | known.modules) if known else reading


def earlier(modules: Collection[str]) -> dict[Input, Reading]:
    """Return what modules have read in this process so far, themselves and through the modules that they read."""
    found: dict[Input, Reading] = {}
    known, before = {*modules}, -1
    while len(found) != before:
        before = len(found)
        for one, reading in _readings.copy().items():
            if one not in found and reading.modules & known:
                found[one] = reading
                known |= {module_of(one.name)} if one.sort == "module" else set()
    return found


def unchanged_since(one: Input, reading: Reading) -> bool:
    """Return whether a file is unchanged since it was read; True for a file that was absent then."""
    return one.sort not in ("file", "module", "declared") or reading.mark in (None, mark_of(one.name))


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


def handle_event(handle: Callable[..., None], frame: FrameType, *arguments: Any) -> None:
    """Note what was read; a failure to note it is no failure of the part."""
    if _state.busy or _state.declared or not (_current is not None or is_being_imported(frame)):
        return
    _state.busy = True
    try:
        handle(frame, *arguments)
    except Refused:
        raise
    except Exception:  # such as a working directory that has been deleted
        note(Input("unobserved", "an input without a name"), None, set())
    finally:
        _state.busy = False


def _opened(frame: FrameType, path: Any, mode: Any = None, flags: int = 0, *more: Any) -> None:
    if isinstance(path, int):
        if path == 0 and sort_of(frame.f_code.co_filename) == "own":  # Python opens it in new processes
            escape(frame, STANDARD_INPUT, "refused")
        return
    if not flags & WRITING:
        _note_file(path, frame)
    else:
        wrote(path)


def wrote(path: Any) -> None:
    """Note that the stage writes a path, whose content is its own."""
    if _current is not None:
        _written.add(absolute(path))


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
    """Note a file that a part moves, unless a child or a library has written it since the stage began."""
    mark = mark_of(absolute(source))
    if mark and mark[-1] < _began and reader_of(frame)[1] == "own":
        note_path("file", source, frame)
    wrote(target)


def _connected_database(frame: FrameType, name: Any) -> None:
    path = os.fsdecode(name).removeprefix("file:").partition("?")[0]
    if path and not path.startswith(":"):
        note_path("file", path, frame)


def _listed(frame: FrameType, path: Any = None, *more: Any) -> None:
    if not imports(frame):
        note_path("listing", "." if path is None else of_descriptor(path), frame)


def _imported(frame: FrameType, name: str, *more: Any) -> None:
    who, kind = reader_of(frame, importing=True)
    if kind == "own":
        note(Input("library", name.partition(".")[0]), None, who)


def _connected(frame: FrameType, socket: Any, address: Any) -> None:
    if isinstance(address, tuple):
        escape(frame, f"a connection to {address[0]}:{address[1]}", "refused")
    else:  # to a process of this machine, such as one that loads data
        escape(frame, "a connection to another process")


def _child(frame: FrameType, *arguments: Any) -> None:
    if "platform" in python_modules(frame) and reader_of(frame)[1] != "own":
        return  # a library asks which machine this is, as provenance tells
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
    "os.scandir": _listed,
    "import": _imported,
    "os.mkdir": lambda frame, path, *_: wrote(path),
    "os.rename": _renamed,
    "os.link": lambda frame, source, target, *_: _linked(frame, absolute(source), target),
    "os.symlink": _linked,
    "sqlite3.connect": _connected_database,
    "socket.connect": _connected,
    "ctypes.dlopen": _library,
    "builtins.input": _asked_for_input,
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
        every = (_readings if _current is None else _current).get(Input("variable", ALL_VARIABLES))
        if every is None or not who <= every.modules:
            note(Input("variable", os.fsdecode(name)), None, who)


def _note_file(path: Any, frame: FrameType) -> None:
    if not imports(frame):
        if not quotes(frame):
            note_path("file", path, frame)
        return
    place = absolute(path)
    if place.startswith((CORE, *PYTHON)) and not is_own(place):
        return
    source = _source_of(place)
    note(Input("module", source), mark_of(source), reader_of(frame, importing=True)[0])


def note_path(sort: Sort, path: Any, frame: FrameType) -> None:
    """Note a path that a part reads, unless it belongs to Python, to the core or to the stage itself."""
    place = absolute(path)
    content = sort in ("file", "declared")
    if place.startswith(ZONES) or (not content and place in sys.path):
        return
    if place.startswith(_ignored) or f"{place}{os.sep}" in _above or place in _written:
        return
    if place.startswith(PYTHON) and sort != "declared" and not is_own(place):
        return
    who, kind = reader_of(frame)
    if (kind in ("core", "import") and not who) or (kind != "own" and place.startswith((*SYSTEM, *HARMLESS))):
        return
    mark = mark_of(place)
    if mark and sort == "file" and stat.S_ISDIR(mark[0]):
        sort = "listing"
    if place.startswith(SYSTEM) or (mark and sort == "file" and not stat.S_ISREG(mark[0])):
        if not place.startswith(HARMLESS):  # what Python reads of the machine for a part is told, no more
            escape(frame, place, "refused" if sort_of(frame.f_code.co_filename) == "own" else "unobserved")
        return
    given = os.fsdecode(path)
    note(Input(sort, place), mark, who, given if not os.path.isabs(given) and os.getcwd() == _home else "")


def escape(frame: FrameType, what: str, sort: Sort = "unobserved") -> None:
    """Note an input of a part that cannot be observed; raise Refused if it cannot be read again."""
    who, _ = reader_of(frame)
    if who:
        note(Input(sort, what), None, who)
    if who and sort == "refused" and _current is not None:
        raise Refused(
            f"it read {what} (in {', '.join(who)}), which cannot be read again. Read a file instead, or, "
            "if settings determine the answer, wrap the call in `with bench_core.reads():`."
        )


def note(what: Input, mark: Mark, who: set[str], relative: str = "") -> None:
    """Note that something was read, by these modules."""
    readings = _readings if _current is None else _current
    known = readings.get(what)
    readings[what] = Reading(who | known.modules if known else who, mark, relative)


@cache
def _source_of(path: str) -> str:
    """Return the source of a compiled module, if the path is that of one."""
    try:
        return source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


def absolute(path: Any) -> str:
    """Return the absolute form of a path."""
    return os.path.normpath(os.path.join(os.getcwd(), os.fsdecode(path)))


def mark_of(path: str) -> Any:
    """Return the status of a file, which shows whether it changed; None if there is no file."""
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns


def _started_children() -> str:
    """Return what changes when a process is started by `multiprocessing`."""
    return str(getattr(sys.modules.get("multiprocessing.process"), "_process_counter", "count(1)"))


_stat, _read_link = os.stat, os.readlink
