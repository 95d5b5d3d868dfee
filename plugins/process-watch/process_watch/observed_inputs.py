"""Observes undeclared inputs of a process: files, folders, variables, libraries; and names what it cannot observe.

Audit events report opened files, listed folders, imports, child processes and connections; `os.environ` reports its
reads; `os.stat` and readers in compiled code, which raise no events, are wrapped. The inputs of a block are those
reported while it runs, and those that its modules read earlier in this process, since they may have kept them.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import local
from types import FrameType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from process_watch.host import Refused
from process_watch.whose_code import (
    PYTHON,
    host,
    is_being_imported,
    is_own,
    module_of,
    python_modules,
    reader_of,
    sort_of,
)

T = TypeVar("T")

Sort: TypeAlias = Literal[
    "file",
    "declared",
    "module",
    "existence",
    "status",
    "listing",
    "entries",
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


class Input(NamedTuple):
    """An input that was read: a path, a variable or a library; or one that is `unobserved` or `refused`.

    Of a path, its content was read, or its `status`: times, mode and target of a link; of a folder, its `listing`, or
    the status of its `entries`. `reads` makes it `declared`. A `library` may be a module that is absent.
    The `variable` "*" stands for all of them.
    """

    sort: Sort
    name: str

    @property
    def module(self) -> str:
        """The name of the loaded module whose file this is; empty if there is none."""
        return module_of(self.name)

    def is_unchanged(self, reading: Reading) -> bool:
        """Return whether a file is unchanged since it was read; True for a file that was absent then."""
        return self.sort not in ("file", "module", "declared") or reading.mark in (None, mark_of(self.name))


class Reading(NamedTuple):
    """When and by whom something was read."""

    modules: set[str]  #: in whose code; empty if in no user's
    mark: Mark  #: the status of a file
    relative: str  #: the path as it was given, if it was relative to the working directory of blocks


class _State(local):
    busy = False  # with an event, whose own reads are not observed
    declared = False  # inside of `reads`


_state = _State()
_readings: dict[Input, Reading] = {}  # of this process, but for the block that is performed
_current: dict[Input, Reading] | None = None  # of the block that is performed
_written: set[str] = set()  # by that block
_ignored: tuple[str, ...] = ()  # prefixes of paths
_above: set[str] = set()  # folders in which these are
_home = ""  # the working directory of blocks
_began = 0  # when the block began, in nanoseconds since 1970
bodies: dict[tuple[int, str], tuple[Any, Any]] = {}  #: id, attribute -> function or class, and what it had before
assigned: set[str] = set()  #: environment variables that users' code set or removed


@contextmanager
def reads(*paths: str | os.PathLike[str]) -> Iterator[None]:
    """Declare files that are read unobserved in this context, such as by a child process or by compiled code.

    The files at `paths` count as inputs. Child processes, connections and variables in this context do not: `paths`,
    or what identifies the block otherwise, must determine their results.
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
    _forget_lines()
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


def _forget_lines() -> None:
    """Empty caches of Python in which one block would find what another has read."""
    lines = getattr(sys.modules.get("linecache"), "cache", {})
    for name in [name for name, entry in [*lines.items()] if len(entry) > 1 and entry[1] is not None]:  # of files
        lines.pop(name, None)
    getattr(sys.modules.get("gettext"), "_translations", {}).clear()


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
    """Standard input while a block is performed: reads of users' code are refused; debuggers read it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "readline", "readlines", "buffer"):
            asked_for_input(sys._getframe(1))
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        asked_for_input(sys._getframe(1))
        return iter(self._stream)


def asked_for_input(frame: FrameType, *arguments: Any) -> None:
    """Refuse to read standard input, unless a debugger does."""
    if not python_modules(frame) & {"pdb", "bdb"}:
        escape(frame, STANDARD_INPUT, "refused")


def is_observing() -> bool:
    """Return whether a block is performed in this process."""
    return _current is not None


def remember(found: Mapping[Input, Reading]) -> None:
    """Remember inputs for later blocks of this process, since the modules that read them may have kept them."""
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
                known |= {one.module} if one.sort == "module" else set()
    return found


def handle_event(handle: Callable[..., None], frame: FrameType, *arguments: Any) -> None:
    """Note what was read; a failure to note it is no failure of its reader."""
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


def wrote(path: Any) -> None:
    """Note that the block writes a path, whose content is its own."""
    if _current is not None:
        _written.add(absolute(path))


def note_path(sort: Sort, path: Any, frame: FrameType) -> None:
    """Note a path that users' code reads, unless it belongs to Python, to the host or to the block itself."""
    place = absolute(path)
    content = sort in ("file", "declared")
    if place.startswith(ZONES) or (place in sys.path and not content and not _is_list_of_modules(sort, frame)):
        return
    if place.startswith(_ignored) or f"{place}{os.sep}" in _above or place in _written:
        return
    if place.startswith(PYTHON) and sort != "declared" and not is_own(place):
        return
    who, kind = reader_of(frame)
    if (kind in ("host", "import") and not who) or (kind != "own" and place.startswith((*SYSTEM, *HARMLESS))):
        return
    mark = mark_of(place)
    if mark and sort == "file" and stat.S_ISDIR(mark[0]):
        sort = "listing"
    if place.startswith(SYSTEM) or (mark and sort == "file" and not stat.S_ISREG(mark[0])):
        if not place.startswith(HARMLESS):  # what Python reads of the machine is told, no more
            escape(frame, place, "refused" if sort_of(frame.f_code.co_filename) == "own" else "unobserved")
        return
    given = os.fsdecode(path)
    note(Input(sort, place), mark, who, given if not os.path.isabs(given) and os.getcwd() == _home else "")


def _is_list_of_modules(sort: Sort, frame: FrameType) -> bool:
    """Return whether users' code lists a folder of modules; metadata of distributions are looked up in all."""
    names = python_modules(frame)
    return sort == "listing" and reader_of(frame)[1] == "own" and not any("metadata" in name for name in names)


def escape(frame: FrameType, what: str, sort: Sort = "unobserved") -> None:
    """Note an input that cannot be observed; raise Refused if it cannot be read again."""
    who, _ = reader_of(frame)
    if who:
        note(Input(sort, what), None, who)
    if who and sort == "refused" and _current is not None:
        raise host().refused(what, ", ".join(who))


def noted(what: Input) -> Reading | None:
    """Return when and by whom an input was read, if it was."""
    return (_readings if _current is None else _current).get(what)


def was_before(mark: Any) -> bool:
    """Return whether a file with this status was last written before the block began."""
    return bool(mark) and mark[-1] < _began


def note(what: Input, mark: Mark, who: set[str], relative: str = "") -> None:
    """Note that something was read, by these modules."""
    readings = _readings if _current is None else _current
    known = readings.get(what)
    readings[what] = Reading(who | known.modules if known else who, mark, relative)


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


_stat = os.stat
