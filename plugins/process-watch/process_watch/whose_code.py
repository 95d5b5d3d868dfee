"""Finds out whose code reads an input, by frames of calls: a user's, the host's, a library's or Python's own."""

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
    """Yield the folders of packages, without importing these."""
    for spec in filter(None, map(find_spec, packages)):
        yield from (f"{os.path.abspath(place)}{os.sep}" for place in spec.submodule_search_locations or ())


def _libraries() -> Iterator[tuple[str, str]]:
    """Yield where installed libraries are, and in which folder of `sys.path`.

    Those are whole folders such as `site-packages`, also of users and of other environments; in a folder of another
    name, such as that of `pip install --target`, only what distributions recorded there.
    """
    own = _PATHS["purelib"], _PATHS["platlib"]
    for folder in dict.fromkeys((*own, *sys.path)):
        if folder in own or os.path.basename(folder) in INSTALLED:
            yield f"{folder}{os.sep}", f"{folder}{os.sep}"
            continue
        with suppress(OSError):  # of a zip file, or of what is not there
            if any(name.endswith(".dist-info") for name in os.listdir(folder or ".")):
                files = (file for one in distributions(path=[folder]) for file in one.files or ())
                for file in {file.parts[:1]: file for file in files}.values():
                    place = os.path.join(os.path.abspath(folder), file.parts[0])
                    yield place + os.sep * (len(file.parts) > 1), os.path.abspath(folder) + os.sep


_host = Host()
_OWN = f"{os.path.dirname(os.path.abspath(__file__))}{os.sep}"
_places: tuple[str, ...] = (_OWN,)  # of the host's code, and of this library's
_PATHS = sysconfig.get_paths()
INSTALLED = {"site-packages", "dist-packages"}  #: names of folders of libraries, also of another Python
_LIBRARIES = dict(_libraries())
SITES = (*_LIBRARIES,)
#: Where Python and its libraries are, whose versions are in keys or provenance.
PYTHON = (
    *(f"{_PATHS[name]}{os.sep}" for name in ("stdlib", "platstdlib")), *SITES,
    *(path for path in sys.path if path.endswith(".zip") and path.startswith(sys.base_prefix)),
)  # fmt: skip
IMPORTING = "<frozen importlib._bootstrap>"
IMPORTERS = ("<frozen importlib", "<frozen zipimport")
A_THREAD = "a thread"  # the reader where no user's code is seen, as a thread calls others for it
within: set[CodeType] = set()  #: of the functions below which blocks are performed
wrapping: set[CodeType] = set()  #: of the functions that stand for others, which are theirs who call them


def host() -> Host:
    """Return the host of this process."""
    return _host


def set_host(new: Host) -> None:
    """Have another host; what was found out for the one before is forgotten."""
    global _host, _places
    _host, _places = new, (_OWN, *_folders(new.packages))
    for function in (sort_of, is_own, _plugins):
        function.cache_clear()


def reader_of(frame: FrameType | None, importing: bool = False) -> tuple[set[str], str]:
    """Return the user's module that called a frame, and whose code reads: own, host, lib, std or import.

    The reader is the innermost caller that is not Python's own. Files that a library reads while it is imported are
    no user's, unless `importing`.
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
    """Return the innermost frame that is not Python's own."""
    while frame is not None and (frame.f_code in wrapping or sort_of(frame.f_code.co_filename) == "std"):
        frame = frame.f_back
    return frame


def is_being_imported(frame: FrameType | None) -> bool:
    """Return whether a user's module is being imported; all other reads outside of blocks are the host's."""
    while frame is not None and (sort := sort_of((code := frame.f_code).co_filename)) != "host":
        if sort == "own" and code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


@cache
def sort_of(file: str) -> str:
    """Return whose code a file holds: own (a user's), host, lib (an installed library's) or std (Python's)."""
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


def is_known(file: str) -> bool:
    """Return whether a file is the host's, Python's or a library's."""
    return file.startswith((*_places, *PYTHON)) and not is_own(file)


def is_import_system(frame: FrameType) -> bool:
    """Return whether a frame is the import system's."""
    back = frame.f_back
    return frame.f_code.co_filename.startswith(IMPORTERS) and (
        back is None or back.f_code.co_filename.startswith(IMPORTERS)
    )


def quotes(frame: FrameType | None) -> bool:
    """Return whether a source file is read to show its lines in a warning or a traceback."""
    names = python_modules(frame)
    return "linecache" in names and bool(names & {"traceback", "warnings", "logging"})


def python_modules(frame: FrameType | None) -> set[str]:
    """Return the modules of Python itself that call a frame, up to the first other caller."""
    names = set()
    while frame is not None and sort_of(frame.f_code.co_filename) == "std":
        names.add(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return names


def module_of(path: str) -> str:
    """Return the name of a loaded module by its file; empty if there is none."""
    return _module_names(len(sys.modules)).get(path, "")


@lru_cache(maxsize=1)
def _module_names(number: int) -> dict[str, str]:
    """Return the names of the modules that are loaded, by their files; anew where there are more of them."""
    files = ((getattr(module, "__file__", None), name) for name, module in [*sys.modules.items()])
    return {file: name for file, name in files if isinstance(file, str)}
