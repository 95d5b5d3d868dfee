"""Observes undeclared inputs of a process (files, folders, variables, libraries), and reports unobservable inputs.

Audit events report opened files, listed folders, imports, child processes and connections; `os.environ` reports its
reads; `os.stat` and readers in compiled code do not raise events and are wrapped. A block's inputs are all inputs
reported while it runs, and all inputs that its modules read earlier in this process and may have cached.
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
    "file", "declared", "module", "existence", "status", "listing", "entries", "variable", "library", "unobserved",
    "refused",
]  # fmt: skip
Mark: TypeAlias = tuple[int, ...] | None  #: the status of a file when it was read; None for other inputs

ALL_VARIABLES = "*"
STANDARD_INPUT = "standard input"
ZONES = ("/usr/share/zoneinfo/", "/usr/lib/locale/")
SYSTEM = ("/dev/", "/proc/", "/sys/")
#: System files that libraries read and that do not affect results.
HARMLESS = ("/usr/share/", "/usr/lib/", "/etc/", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero", "/dev/fd/")


class Input(NamedTuple):
    """An input: a path, variable or library that was read, or an `unobserved` or `refused` input.

    For a file, either its content or its `status` (times, mode, link target) was read; for a folder, its `listing`
    or the status of its `entries`. Paths passed to `reads` are `declared`. A `library` may be a missing module. The
    `variable` "*" stands for all variables.
    """

    sort: Sort
    name: str

    @property
    def module(self) -> str:
        """The name of the loaded module with this file, or an empty string."""
        return module_of(self.name)

    def is_unchanged(self, reading: Reading) -> bool:
        """Return whether a file is unchanged since it was read; also true if it did not exist then."""
        return self.sort not in ("file", "module", "declared") or reading.mark in (None, mark_of(self.name))


class Reading(NamedTuple):
    """The context in which an input was read."""

    modules: set[str]  #: user modules that read it; may be empty
    mark: Mark  #: the status of a file
    relative: str  #: the original path, if relative to the working directory of blocks


class _State(local):
    busy = False  # whether an event is being handled; reads by the handler are ignored
    declared = False  # whether `reads` is active


_state = _State()
_readings: dict[Input, Reading] = {}  # of this process, excluding the running block
_current: dict[Input, Reading] | None = None  # of the running block
_written: set[str] = set()  # paths written by the running block
_ignored: tuple[str, ...] = ()  # path prefixes
_above: set[str] = set()  # parent folders of ignored paths
_home = ""  # the working directory of blocks
_began = 0  # start of the block in nanoseconds since 1970
bodies: dict[tuple[int, str], tuple[Any, Any]] = {}  #: (id, attribute) -> (function or class, previous value)
assigned: set[str] = set()  #: environment variables that user code set or removed


@contextmanager
def reads(*paths: str | os.PathLike[str]) -> Iterator[None]:
    """Declare files that are read unobserved in this context, e.g. by a child process or by compiled code.

    The files at `paths` count as inputs. Child processes, connections and variables in this context do not: their
    results must be determined by `paths`, or by other data that identify the block.
    """
    before, _state.declared = _state.declared, True
    try:
        for path in paths if _current is not None else ():
            note_path("declared", os.fspath(path), sys._getframe())
        yield
    finally:
        _state.declared = before


def observe(work: Callable[[], T], inputs: dict[Input, Reading], home: str, *ignored: Path) -> T:
    """Return the result of `work` and record its inputs in `inputs`, except files in ignored folders."""
    global _current, _ignored, _above, _home, _began
    normalizers = (os.path.abspath, os.path.realpath)
    _began = time.time_ns()
    _home, _ignored = home, tuple(f"{normalize(folder)}{os.sep}" for folder in ignored for normalize in normalizers)
    places = [Path(normalize(folder)) for folder in ignored for normalize in normalizers]
    _above = {f"{parent}{os.sep}" for place in places for parent in (place, *place.parents)}
    _current = inputs
    _written.clear()
    _clear_caches()
    children = _started_children()
    try:
        with _without_standard_input():
            return work()
    finally:
        if _started_children() != children:
            note(Input("unobserved", "a child process"), None, set())
        for path in _written.copy():  # missing before this run, present for the next
            if (reading := inputs.get(Input("existence", path))) and (mark := mark_of(path)):
                inputs.setdefault(Input("file", path), reading._replace(mark=mark))
        _current = None


def _clear_caches() -> None:
    """Clear Python's caches through which a block could see files that an earlier block read."""
    lines = getattr(sys.modules.get("linecache"), "cache", {})
    for name in [name for name, entry in [*lines.items()] if len(entry) > 1 and entry[1] is not None]:  # files
        lines.pop(name, None)
    getattr(sys.modules.get("gettext"), "_translations", {}).clear()


@contextmanager
def _without_standard_input() -> Iterator[None]:
    """Refuse reads of standard input and, unless it is a terminal (for debuggers), replace it with an empty file."""
    before, original = sys.stdin, None
    with suppress(OSError):
        if not os.isatty(0):
            original, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
    sys.stdin = before and _RefusingInput(before)
    try:
        yield
    finally:
        sys.stdin = before
        if original is not None:
            os.dup2(original, 0)
            os.close(original)


class _RefusingInput:
    """Standard input during a block: refuses reads by user code; debuggers may read it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "readline", "readlines", "buffer"):
            refuse_input(sys._getframe(1))
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        refuse_input(sys._getframe(1))
        return iter(self._stream)


def refuse_input(frame: FrameType, *arguments: Any) -> None:
    """Refuse a read of standard input, unless by a debugger."""
    if not python_modules(frame) & {"pdb", "bdb"}:
        escape(frame, STANDARD_INPUT, "refused")


def is_observing() -> bool:
    """Return whether a block is running in this process."""
    return _current is not None


def remember(inputs: Mapping[Input, Reading]) -> None:
    """Store inputs for later blocks of this process, because the modules that read them may have cached them."""
    for source, reading in inputs.items():
        known = _readings.get(source)
        _readings[source] = reading._replace(modules=reading.modules | known.modules) if known else reading


def earlier(modules: Collection[str]) -> dict[Input, Reading]:
    """Return the inputs that modules have read so far, directly and through modules that they imported."""
    inputs: dict[Input, Reading] = {}
    known, before = {*modules}, -1
    while len(inputs) != before:
        before = len(inputs)
        for source, reading in _readings.copy().items():
            if source not in inputs and reading.modules & known:
                inputs[source] = reading
                known |= {source.module} if source.sort == "module" else set()
    return inputs


def handle_event(handle: Callable[..., None], frame: FrameType, *arguments: Any) -> None:
    """Record an input; failures to record it do not affect the reader."""
    if _state.busy or _state.declared or not (_current is not None or is_being_imported(frame)):
        return
    _state.busy = True
    try:
        handle(frame, *arguments)
    except Refused:
        raise
    except Exception:  # e.g. a deleted working directory
        note(Input("unobserved", "an input without a name"), None, set())
    finally:
        _state.busy = False


def wrote(path: Any) -> None:
    """Record that the block writes a file, whose content is then not an input."""
    if _current is not None:
        _written.add(absolute(path))


def note_path(sort: Sort, path: Any, frame: FrameType) -> None:
    """Record a path read by user code, unless it belongs to Python, to the host or to the block itself."""
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
        if not place.startswith(HARMLESS):  # system files are reported, not tracked
            escape(frame, place, "refused" if sort_of(frame.f_code.co_filename) == "own" else "unobserved")
        return
    given = os.fsdecode(path)
    note(Input(sort, place), mark, who, given if not os.path.isabs(given) and os.getcwd() == _home else "")


def _is_list_of_modules(sort: Sort, frame: FrameType) -> bool:
    """Return whether user code lists a folder of modules; excludes lookups of distribution metadata."""
    names = python_modules(frame)
    return sort == "listing" and reader_of(frame)[1] == "own" and not any("metadata" in name for name in names)


def escape(frame: FrameType, what: str, sort: Sort = "unobserved") -> None:
    """Record an input that cannot be observed; raise Refused if it cannot be read again."""
    who, _ = reader_of(frame)
    if who:
        note(Input(sort, what), None, who)
    if who and sort == "refused" and _current is not None:
        raise host().refused(what, ", ".join(who))


def reading_of(what: Input) -> Reading | None:
    """Return the recorded reading of an input, or None."""
    return (_readings if _current is None else _current).get(what)


def is_older_than_block(mark: Any) -> bool:
    """Return whether a file with this status was last written before the block began."""
    return bool(mark) and mark[-1] < _began


def note(what: Input, mark: Mark, who: set[str], relative: str = "") -> None:
    """Record that modules read an input."""
    readings = _readings if _current is None else _current
    known = readings.get(what)
    readings[what] = Reading(who | known.modules if known else who, mark, relative)


def absolute(path: Any) -> str:
    """Return the absolute form of a path."""
    return os.path.normpath(os.path.join(os.getcwd(), os.fsdecode(path)))


def mark_of(path: str) -> Any:
    """Return the status of a file, to detect changes; None if it does not exist."""
    try:
        status = _stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns


def _started_children() -> str:
    """Return a value that changes whenever `multiprocessing` starts a process."""
    return str(getattr(sys.modules.get("multiprocessing.process"), "_process_counter", "count(1)"))


_stat = os.stat
