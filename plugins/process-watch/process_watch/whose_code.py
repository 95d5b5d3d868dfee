"""Determines from the call stack whose code reads an input: user code, the host, a library or Python."""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import distributions
from importlib.util import find_spec
from types import CodeType, FrameType

from process_watch.host import Host


def _folders(packages: Iterable[str]) -> Iterator[str]:
    """Yield the folders of packages without importing them."""
    for spec in filter(None, map(find_spec, packages)):
        yield from (f"{os.path.abspath(place)}{os.sep}" for place in spec.submodule_search_locations or ())


def _libraries() -> Iterator[tuple[str, str]]:
    """Yield paths of installed libraries, each with its folder in `sys.path`.

    Folders such as `site-packages`, including folders of users and of other environments, count as a whole. In other
    folders, such as the target of `pip install --target`, only paths recorded by distributions count.
    """
    standard_folders = _PATHS["purelib"], _PATHS["platlib"]
    for folder in dict.fromkeys((*standard_folders, *sys.path)):
        if folder in standard_folders or os.path.basename(folder) in INSTALLED:
            yield f"{folder}{os.sep}", f"{folder}{os.sep}"
            continue
        with suppress(OSError):  # zip file or missing folder
            if any(name.endswith(".dist-info") for name in os.listdir(folder or ".")):
                files = (file for distribution in distributions(path=[folder]) for file in distribution.files or ())
                for file in {file.parts[:1]: file for file in files}.values():
                    place = os.path.join(os.path.abspath(folder), file.parts[0])
                    yield place + os.sep * (len(file.parts) > 1), os.path.abspath(folder) + os.sep


_host = Host()
_OWN = f"{os.path.dirname(os.path.abspath(__file__))}{os.sep}"
_places: tuple[str, ...] = (_OWN,)  # folders of the host's code and of this library
_PATHS = sysconfig.get_paths()
INSTALLED = {"site-packages", "dist-packages"}  #: names of library folders, including other Python installations
_LIBRARIES = dict(_libraries())
SITES = (*_LIBRARIES,)
#: Paths of Python and its libraries, whose versions are recorded separately.
PYTHON = (
    *(f"{_PATHS[name]}{os.sep}" for name in ("stdlib", "platstdlib")), *SITES,
    *(path for path in sys.path if path.endswith(".zip") and path.startswith(sys.base_prefix)),
)  # fmt: skip
IMPORTING = "<frozen importlib._bootstrap>"
IMPORTERS = ("<frozen importlib", "<frozen zipimport")
A_THREAD = "a thread"  # reader name for threads without user code on their stack
within: set[CodeType] = set()  #: code of the functions that run blocks
wrapping: set[CodeType] = set()  #: code of wrappers, which count as code of their callers


def host() -> Host:
    """Return the host of this process."""
    return _host


def set_host(new: Host) -> None:
    """Replace the host and clear the caches that depend on it."""
    global _host, _places
    _host, _places = new, (_OWN, *_folders(new.packages))
    for function in (sort_of, is_own, _plugins):
        function.cache_clear()


def reader_of(frame: FrameType | None, importing: bool = False) -> tuple[set[str], str]:
    """Return the user module that called a frame, and the owner of the reader: own, host, lib, std or import.

    The reader is the innermost caller outside Python's own code. Files that a library reads during its import have
    no user module, unless `importing`.
    """
    kind, outermost = "", frame
    while frame is not None and (code := frame.f_code) not in within:
        sort = "std" if code in wrapping else sort_of(code.co_filename)
        kind = kind or ("" if sort == "std" else sort)
        if sort == "own":
            return {frame.f_globals.get("__name__", "")}, kind
        if code.co_name == "_find_and_load" and code.co_filename == IMPORTING and not importing:
            return set(), "import"
        frame, outermost = frame.f_back, frame
    if frame is None and not kind and outermost is not None and outermost.f_globals.get("__name__") == "threading":
        return {A_THREAD}, "own"
    return set(), kind or "std"


def caller_of(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside Python's own code."""
    while frame is not None and (frame.f_code in wrapping or sort_of(frame.f_code.co_filename) == "std"):
        frame = frame.f_back
    return frame


def is_being_imported(frame: FrameType | None) -> bool:
    """Return whether a user module is being imported; other reads outside blocks belong to the host."""
    while frame is not None and (sort := sort_of((code := frame.f_code).co_filename)) != "host":
        if sort == "own" and code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


@cache
def sort_of(file: str) -> str:
    """Return the owner of the code in a file: own (user code), host, lib (installed library) or std (Python)."""
    if file.startswith(_places):
        return "host"
    if file.startswith("<"):
        return "std"
    if is_own(file):
        return "own"
    return "lib" if file.startswith(SITES) else "std" if file.startswith(PYTHON) else "own"


@cache
def is_own(file: str) -> bool:
    """Return whether a file among the installed libraries belongs to a plugin of the host."""
    site = next((folder for place, folder in _LIBRARIES.items() if file.startswith(place)), None)
    return site is not None and file[len(site) :].partition(os.sep)[0].removesuffix(".py") in _plugins()


@cache
def _plugins() -> frozenset[str]:
    return frozenset(_host.plugins())


def is_not_user_code(file: str) -> bool:
    """Return whether a file belongs to the host, Python or a library."""
    return file.startswith((*_places, *PYTHON)) and not is_own(file)


def is_import_system(frame: FrameType) -> bool:
    """Return whether a frame belongs to the import system."""
    back = frame.f_back
    return frame.f_code.co_filename.startswith(IMPORTERS) and (
        back is None or back.f_code.co_filename.startswith(IMPORTERS)
    )


def is_showing_source(frame: FrameType | None) -> bool:
    """Return whether a source file is read to show its lines in a warning or a traceback."""
    names = python_modules(frame)
    return "linecache" in names and bool(names & {"traceback", "warnings", "logging"})


def python_modules(frame: FrameType | None) -> set[str]:
    """Return Python's own modules among the callers of a frame, up to the first other caller."""
    names = set()
    while frame is not None and sort_of(frame.f_code.co_filename) == "std":
        names.add(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return names


def module_of(path: str) -> str:
    """Return the name of the loaded module with this file, or an empty string."""
    return _module_names(len(sys.modules)).get(path, "")


@lru_cache(maxsize=1)
def _module_names(number: int) -> dict[str, str]:
    """Return the names of loaded modules by file; cached until their number changes."""
    files = ((getattr(module, "__file__", None), name) for name, module in [*sys.modules.items()])
    return {file: name for file, name in files if isinstance(file, str)}
