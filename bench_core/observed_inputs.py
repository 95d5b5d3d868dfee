"""Observes undeclared inputs of a process: files, folders, variables, libraries; and names what it cannot observe.

Audit events report opened files, listed folders, imports, children and connections; `os.environ` reports its reads;
`os.stat` and the readers of files in compiled code that raise no events are wrapped. What a stage reads is what was
reported while it was performed, and what its modules have read before in this process and may have kept.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache, wraps
from importlib.machinery import PathFinder
from importlib.util import source_from_cache
from pathlib import Path
from threading import local
from types import FrameType, FunctionType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from bench_core import entry_points
from bench_core.errors import PluginError

T = TypeVar("T")

Sort: TypeAlias = Literal["file", "module", "existence", "listing", "variable", "library", "unobserved", "refused"]
Mark: TypeAlias = tuple[int, ...] | None  #: the status of a file when it was read; None of all else

ALL_VARIABLES = "*"
CORE = f"{os.path.dirname(os.path.abspath(__file__))}{os.sep}"
_PATHS = sysconfig.get_paths()
SITES = tuple(f"{_PATHS[name]}{os.sep}" for name in ("purelib", "platlib"))
#: Where Python and its libraries are, whose versions are in keys or provenance.
PYTHON = (
    *(f"{_PATHS[name]}{os.sep}" for name in ("stdlib", "platstdlib")), *SITES,
    *(path for path in sys.path if path.endswith(".zip") and path.startswith(sys.base_prefix)),
)  # fmt: skip
ZONES = ("/usr/share/zoneinfo/", "/usr/lib/locale/")
SYSTEM = ("/dev/", "/proc/", "/sys/")
#: Files of the system that libraries read, and that change no result.
HARMLESS = ("/usr/share/", "/usr/lib/", "/etc/", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero", "/dev/fd/")
IMPORTING = "<frozen importlib._bootstrap>"
BODY = ("__code__", "__defaults__", "__kwdefaults__", "__bases__")  # of functions and classes, as events name them
_WRITING = os.O_WRONLY | os.O_TRUNC | os.O_EXCL


class Input(NamedTuple):
    """Something that was read: a path, a variable, a library; or what is unobserved, or `refused`."""

    sort: Sort
    name: str


class Reading(NamedTuple):
    """When and by whom something was read."""

    modules: set[str]  # in whose code; empty if in none of a part
    mark: Mark
    relative: str  # the path as it was given, if it was relative to the working directory of stages


class Refused(PluginError):
    """A stage read what cannot be read again."""


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
_installed = False
bodies: dict[tuple[Any, str], Any] = {}  #: function or class, and its attribute -> what it was before it was written
assigned: set[str] = set()  #: environment variables that the code of parts set or removed


@contextmanager
def reads(*paths: str | os.PathLike[str]) -> Iterator[None]:
    """Declare what a block reads in ways that Python does not observe, such as by a child process or compiled code.

    The files at `paths` count as inputs of the stage. Children and connections of the block, and variables that it
    reads, do not: the settings in the key, or `paths`, must determine what they give.
    """
    before, _state.declared = _state.declared, True
    try:
        for path in paths if _current is not None else ():
            _note_path("file", os.fspath(path), sys._getframe())
        yield
    finally:
        _state.declared = before


def observe(work: Callable[[], T], found: dict[Input, Reading], home: str, *ignored: Path) -> T:
    """Return what `work` returns; note in `found` what it reads, but for what is below ignored folders."""
    global _current, _ignored, _above, _home
    install()
    ways = (os.path.abspath, os.path.realpath)
    _home, _ignored = home, tuple(f"{way(one)}{os.sep}" for one in ignored for way in ways)
    places = [Path(way(one)) for one in ignored for way in ways]
    _above = {f"{parent}{os.sep}" for one in places for parent in (one, *one.parents)}
    _current = found
    _written.clear()
    children = _started_children()
    try:
        return work()
    finally:
        if _started_children() != children:
            _add(Input("unobserved", "a child process"), None, set())
        _current = None


def remember(found: Mapping[Input, Reading]) -> None:
    """Count inputs as read by their modules, which may have kept them, for later stages of this process."""
    for one, reading in found.items():
        known = _readings.get(one)
        _readings[one] = reading._replace(modules=reading.modules | known.modules) if known else reading


def earlier(modules: Collection[str]) -> dict[Input, Reading]:
    """Return what modules have read in this process so far, with the modules that they read, in turn."""
    found: dict[Input, Reading] = {}
    known, before = {*modules}, -1
    while len(found) != before:
        before = len(found)
        for one, reading in _readings.items():
            if one not in found and reading.modules & known:
                found[one] = reading
                known |= {module_of(one.name)} if one.sort == "module" else set()
    return found


def unchanged_since(one: Input, reading: Reading) -> bool:
    """Return whether a file is what it was when it was read; one that was absent may have been written since."""
    return one.sort not in ("file", "module") or reading.mark in (None, _mark(one.name))


def install() -> None:
    """Begin to observe this process, for good."""
    global _installed
    if _installed:
        return
    _installed = True
    sys.addaudithook(_audit)
    for environment in (os.environ, os.environb):
        environment.__class__ = _Environment
    sys.meta_path.insert(0, _WrappingFinder())
    for name in WRAPPED.keys() & sys.modules.keys():
        _wrap_all(name)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "object.__setattr__":
        _note_body(*arguments)
    elif (handle := _HANDLERS.get(event)) is not None:
        _handle(handle, sys._getframe(1), *arguments)


def _handle(handle: Callable[..., None], frame: FrameType, *arguments: Any) -> None:
    """Note what was read; no failure of this is one of the part that reads."""
    if _state.busy or _state.declared or not (_current is not None or _is_being_imported(frame)):
        return
    _state.busy = True
    try:
        handle(frame, *arguments)
    except Refused:
        raise
    except Exception:  # such as a working directory that has been deleted
        _add(Input("unobserved", "an input without a name"), None, set())
    finally:
        _state.busy = False


def _opened(frame: FrameType, path: Any, mode: Any = None, flags: int = 0, *more: Any) -> None:
    if isinstance(path, int):
        return
    if not flags & _WRITING:
        _note_file(path, frame)
    else:
        _wrote(path)


def _wrote(path: Any) -> None:
    if _current is not None:
        _written.add(_absolute(path))


def _listed(frame: FrameType, path: Any = None, *more: Any) -> None:
    if not isinstance(path, int) and not _imports(frame):
        _note_path("listing", "." if path is None else path, frame)


def _imported(frame: FrameType, name: str, *more: Any) -> None:
    who, kind = _reader(frame, imports=True)
    if kind == "own":
        _add(Input("library", name.partition(".")[0]), None, who)


def _connected(frame: FrameType, socket: Any, address: Any) -> None:
    if isinstance(address, tuple):
        _escape(frame, f"a connection to {address[0]}:{address[1]}", "refused")
    else:  # to a process of this machine, such as one that loads data
        _escape(frame, "a connection to another process")


def _child(frame: FrameType, *arguments: Any) -> None:
    what = arguments[0] if arguments else ""
    name = os.path.basename(str(what if what and not isinstance(what, list) else "")).partition(" ")[0]
    _escape(frame, f"a child process{f' ({name})' if name else ''}")


def _library(frame: FrameType, name: Any, *more: Any) -> None:
    if _reader(frame)[1] == "own":
        _escape(frame, f"compiled code, called by ctypes{f' ({name})' if name else ''}")


def _note_body(owner: Any, name: str, value: Any) -> None:
    """Note what a function or a class had before code, defaults or bases are written."""
    if name in BODY and issubclass(type(owner), FunctionType | type) and hasattr(owner, name):
        bodies.setdefault((owner, name), getattr(owner, name))


_HANDLERS: dict[str, Callable[..., None]] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _listed,
    "import": _imported,
    "os.mkdir": lambda frame, path, *_: _wrote(path),
    "os.rename": lambda frame, source, target, *_: _wrote(target),
    "socket.connect": _connected,
    "ctypes.dlopen": _library,
    "builtins.input": lambda frame, *_: _escape(frame, "standard input", "refused"),
    **dict.fromkeys(("subprocess.Popen", "os.posix_spawn", "os.spawn", "os.exec"), _child),
    **dict.fromkeys(("os.system", "os.fork", "os.forkpty", "pty.spawn"), lambda frame, *_: _child(frame)),
}


class _Environment(os._Environ):  # type: ignore[type-arg]
    """`os.environ`, which reports which variables are read."""

    def __getitem__(self, name: Any) -> Any:
        _handle(_note_variable, sys._getframe(1), name)
        return super().__getitem__(name)

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, value)
        if _reader(sys._getframe(1))[1] == "own":  # a library sets its own once for all
            assigned.add(os.fsdecode(name))

    def __delitem__(self, name: Any) -> None:
        super().__delitem__(name)
        if _reader(sys._getframe(1))[1] == "own":
            assigned.add(os.fsdecode(name))

    def __iter__(self) -> Iterator[Any]:
        _handle(_note_variable, sys._getframe(1), ALL_VARIABLES)
        return super().__iter__()


def _note_variable(frame: FrameType, name: str | bytes) -> None:
    who, kind = _reader(frame)
    if kind == "own" and os.fsdecode(name) not in assigned and "tempfile" not in _python_modules(frame):
        every = (_readings if _current is None else _current).get(Input("variable", ALL_VARIABLES))
        if every is None or not who <= every.modules:
            _add(Input("variable", os.fsdecode(name)), None, who)


def _note_file(path: Any, frame: FrameType) -> None:
    if not _imports(frame):
        if not _quotes(frame):
            _note_path("file", path, frame)
        return
    place = _absolute(path)
    if place.startswith((CORE, *PYTHON)) and not _is_own(place):
        return
    source = _source_of(place)
    _add(Input("module", source), _mark(source), _reader(frame, imports=True)[0])


def _note_path(sort: Sort, path: Any, frame: FrameType) -> None:
    place = _absolute(path)
    if place.startswith(ZONES) or (sort != "file" and place in sys.path):
        return
    if (
        place.startswith(_ignored)
        or f"{place}{os.sep}" in _above
        or place in _written
        or (place.startswith(PYTHON) and not _is_own(place))
    ):
        return
    who, kind = _reader(frame)
    if (kind in ("core", "import") and not who) or (kind != "own" and place.startswith((*SYSTEM, *HARMLESS))):
        return
    mark = _mark(place)
    if mark and sort == "file" and stat.S_ISDIR(mark[0]):
        sort = "listing"
    if place.startswith(SYSTEM) or (mark and sort == "file" and not stat.S_ISREG(mark[0])):
        if not place.startswith(HARMLESS):  # what Python reads of the machine for a part is told, no more
            _escape(frame, place, "refused" if sort_of(frame.f_code.co_filename) == "own" else "unobserved")
        return
    given = os.fsdecode(path)
    _add(Input(sort, place), mark, who, given if not os.path.isabs(given) and os.getcwd() == _home else "")


def _escape(frame: FrameType, what: str, sort: Sort = "unobserved") -> None:
    """Note something that cannot be observed, if a part does it; raise Refused if it is never the same again."""
    who, _ = _reader(frame)
    if who:
        _add(Input(sort, what), None, who)
    if who and sort == "refused" and _current is not None:
        raise Refused(
            f"it read {what} (in {', '.join(who)}), which cannot be read again. Read a file, or, if "
            "settings determine the answer, declare this by `with bench_core.reads():`."
        )


def _add(what: Input, mark: Mark, who: set[str], relative: str = "") -> None:
    readings = _readings if _current is None else _current
    known = readings.get(what)
    readings[what] = Reading(who | known.modules if known else who, mark, relative)


def _reader(frame: FrameType | None, imports: bool = False) -> tuple[set[str], str]:
    """Return the module of a part in whose code a frame is, and whose code reads: own, core, lib, std or import.

    That is the first which is not Python's own; a part may be behind it. What a library reads when a part imports it
    is the library's, unless it is of the imports themselves.
    """
    kind = ""
    while frame is not None and (code := frame.f_code) is not observe.__code__:
        sort = sort_of(code.co_filename)
        kind = kind or ("" if sort == "std" else sort)
        if sort == "own":
            return {frame.f_globals.get("__name__", "")}, kind
        if code.co_name == "_find_and_load" and code.co_filename == IMPORTING and not imports:
            return set(), "import"
        frame = frame.f_back
    return set(), kind or "std"


def _is_being_imported(frame: FrameType | None) -> bool:
    """Return whether a module of a part is being imported; what else reads outside of stages makes plans."""
    while frame is not None and (sort := sort_of((code := frame.f_code).co_filename)) != "core":
        if sort == "own" and code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


@cache
def sort_of(file: str) -> str:
    """Return whose code is in a file: own of parts, core, lib of an installed library, std of Python."""
    if file.startswith(CORE):
        return "core"
    if file.startswith("<"):
        return "std"
    if _is_own(file):
        return "own"
    return "lib" if file.startswith(SITES) else "std" if file.startswith(PYTHON) else "own"


@cache
def _is_own(file: str) -> bool:
    """Return whether a file among installed libraries is one of a plugin."""
    site = next((one for one in SITES if file.startswith(one)), None)
    return site is not None and file[len(site) :].partition(os.sep)[0].removesuffix(".py") in _plugins()


@cache
def _plugins() -> frozenset[str]:
    return frozenset(entry.module.partition(".")[0] for entry in entry_points.declared(entry_points.PARTS))


def _imports(frame: FrameType) -> bool:
    """Return whether a frame is the import system's."""
    back = frame.f_back
    return frame.f_code.co_filename.startswith("<frozen importlib") and (
        back is None or back.f_code.co_filename.startswith("<frozen importlib")
    )


def _quotes(frame: FrameType | None) -> bool:
    """Return whether a source is read to show lines of it in a warning or a traceback."""
    names = _python_modules(frame)
    return "linecache" in names and bool(names & {"traceback", "warnings", "logging"})


def _python_modules(frame: FrameType | None) -> set[str]:
    """Return the modules of Python's own that a frame is called by, up to the first other."""
    names = set()
    while frame is not None and sort_of(frame.f_code.co_filename) == "std":
        names.add(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return names


@cache
def _source_of(path: str) -> str:
    """Return the source of a compiled module, if the path is that of one."""
    try:
        return source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


def module_of(path: str) -> str:
    """Return the name of a loaded module by its file; empty if there is none."""
    return _module_names(len(sys.modules)).get(path, "")


def package_of(path: str) -> tuple[str, str]:
    """Return the top-level package in whose folder a path is, and that folder; empty if there is none."""
    found = [(home, name) for home, name in _packages(len(sys.modules)) if path.startswith(home)]
    return max(found)[::-1] if found else ("", "")


@lru_cache(maxsize=1)
def _module_names(number: int) -> dict[str, str]:
    """Return the names of the modules that are loaded, by their files; anew where there are more of them."""
    files = ((getattr(module, "__file__", None), name) for name, module in [*sys.modules.items()])
    return {file: name for file, name in files if isinstance(file, str)}


@lru_cache(maxsize=1)
def _packages(number: int) -> list[tuple[str, str]]:
    found = []
    for name, module in [*sys.modules.items()]:
        homes = getattr(module, "__path__", None) if "." not in name else None
        found += [(f"{home}{os.sep}", name) for home in [*(homes or ())][:1] if isinstance(home, str)]
    return found


def _absolute(path: Any) -> str:
    return os.path.normpath(os.path.join(os.getcwd(), os.fsdecode(path)))


def _mark(path: str) -> Any:
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns


def _started_children() -> str:
    """Return what changes when a process is started by `multiprocessing`."""
    return str(getattr(sys.modules.get("multiprocessing.process"), "_process_counter", "count(1)"))


class _WrappingFinder:
    """Wraps what reads without an event when its module is imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
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
        if hasattr(found, name):
            _wrap(found, name, place, handle)


def _wrap(owner: Any, name: str, place: int, handle: Callable[[FrameType, Any], None]) -> None:
    """Have a function note its argument at a place, if there is one; its first by default."""
    function = getattr(owner, name)
    if hasattr(function, "notes"):
        return

    @wraps(function)
    def noting(*arguments: Any, **named: Any) -> Any:
        if _current is not None:
            path = arguments[place] if len(arguments) > place else next(iter(named.values()), None)
            if isinstance(path, str | bytes | os.PathLike):
                _handle(handle, sys._getframe(1), path)
        return function(*arguments, **named)

    noting.notes = True  # type: ignore[attr-defined]
    for supporting in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if function in supporting:
            supporting.add(noting)
    setattr(owner, name, staticmethod(noting) if isinstance(owner, type) else noting)


def _asked(frame: FrameType, path: Any) -> None:
    _note_path("existence", path, frame)


def _read_natively(frame: FrameType, path: Any) -> None:
    _note_path("file", path, frame)


def _named(frame: FrameType, name: Any) -> None:
    """Note a module that a part imports by a computed name, also if it is loaded already."""
    who, _ = _reader(frame)
    file = getattr(sys.modules.get(str(name)), "__file__", None)
    if who and file and sort_of(file) == "own":
        _add(Input("module", file), _mark(file), who)


#: What reads without an event: module -> owner in it, function, place of the path or name, and what notes it.
WRAPPED: dict[str, list[tuple[str, str, int, Callable[[FrameType, Any], None]]]] = {
    "os": [("", name, 0, _asked) for name in ("stat", "lstat", "access")],
    "importlib": [("", "import_module", 0, _named)],
    "importlib.metadata": [("", "import_module", 0, _named)],
    "pydoc": [("", "safeimport", 0, _named)],
    "tokenizers": [("Tokenizer", "from_file", 0, _read_natively)],
    **{
        name: [("", "safe_open", 0, _read_natively)]
        for name in ("safetensors", "safetensors.torch", "safetensors.numpy")
    },
    "torch": [("UntypedStorage", "from_file", 0, _read_natively)],
}
_stat = os.stat
