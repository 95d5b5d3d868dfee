"""Digests of inputs: of files, folders, variables of the environment and libraries, by their names.

A result is current if all of them are unchanged. Paths in a package are recorded relative to the package, and
relative paths as they were given.
"""

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

#: Sort of input -> name -> digest; of what is `unobserved`, the modules that read it.
Dependencies: TypeAlias = Mapping[str, Mapping[str, str]]

ABSENT, NOT_INSTALLED = "absent", "not installed"
ALL_VARIABLES = "*"  #: the name of all variables together
SORTS = ("file", "declared", "existence", "status", "listing", "entries", "variable", "library", "unobserved")
LETTERS = 32  # of a digest
#: Variables that change by themselves, so that reading all variables does not depend on them.
VOLATILE = (
    "_", "PWD", "OLDPWD", "SHLVL", "TERM", "SSH_", "XDG_", "PYTEST_", "CUDA_VISIBLE_DEVICES", "COLUMNS",
    "LINES", "WINDOWID", "DBUS_", "INVOCATION_ID", "JOURNAL_STREAM",
)  # fmt: skip
VOLATILE_ENDS = ("_GPUS",)  #: likewise, of names: which devices a scheduler gave
#: Variables that decide how is computed, which programs record by themselves.
IN_PROVENANCE = ("OMP_", "MKL_", "KMP_", "ATEN_", "OPENBLAS_", "LC_", "LANG", "TZ")
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")  # in names of variables whose values are not recorded


def named(path: str, relative: str = "") -> str:
    """Return the name that records a path: relative to its package if one is loaded, else as it was given."""
    package, home = _package_of(path)
    inside = f"<{package}>{os.sep}{path[len(home) :]}" if package else ""
    return inside or relative or path


def _package_of(path: str) -> tuple[str, str]:
    """Return the top-level package in whose folder a path is, and that folder; empty if there is none."""
    packages, home = _packages(len(sys.modules)), path
    while home := home.rpartition(os.sep)[0]:
        if name := packages.get(home):
            return name, f"{home}{os.sep}"
    return "", ""


@lru_cache(maxsize=1)
def _packages(number: int) -> dict[str, str]:
    """Return the names of the top-level packages that are loaded, by their folders."""
    homes = [(getattr(module, "__path__", None), name) for name, module in [*sys.modules.items()] if "." not in name]
    first = ((next(iter(places), None), name) for places, name in sorted(homes, key=lambda one: one[1]) if places)
    return {home: name for home, name in first if isinstance(home, str)}


def _placed(name: str) -> str:
    """Return the path that a name stands for."""
    package, bracket, rest = name[1:].partition(">") if name.startswith("<") else ("", "", "")
    spec = find_spec(package) if bracket and package.isidentifier() else None
    homes = spec.submodule_search_locations if spec else None
    return f"{next(iter(homes))}{rest}" if homes else name


def current_digest(sort: str, name: str) -> str:
    """Return the digest of an input as it is now."""
    if sort == "variable":
        return _variable(name)
    if sort == "library":
        known = _version(name)
        return known if known != NOT_INSTALLED or not is_absent(name) else ABSENT
    path, link = Path(_placed(name)), ""
    try:
        if sort == "status" and path.is_symlink():
            link = f" by a link to {os.readlink(path)}"
        status = path.stat()
        if sort == "existence":
            size = f" of {status.st_size} bytes" if stat.S_ISREG(status.st_mode) else ""
            return f"{stat.S_IFMT(status.st_mode):o}{size}"
        if sort == "status":
            return f"{status.st_mode:o} of {status.st_size} bytes at {status.st_mtime_ns}{link}"
        if sort == "declared" and stat.S_ISDIR(status.st_mode):
            return folder_digest(path)[:LETTERS]
        if sort in ("listing", "entries"):
            names = "\n".join(sorted(_entries(path, sort == "entries")))
            return hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:LETTERS]
        marks = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        return _digest(path, marks) if stat.S_ISREG(status.st_mode) else "no file"
    except (FileNotFoundError, NotADirectoryError):
        return f"{ABSENT}{link}"
    except (OSError, ValueError) as error:
        return f"unreadable ({getattr(error, 'strerror', None) or error})"


def _entries(folder: Path, with_status: bool) -> Iterator[str]:
    """Yield what tells of each file in a folder: its name, whether it is a folder itself, and its status."""
    with os.scandir(folder) as found:
        for one in found:
            if one.name != "__pycache__":
                mark = one.stat(follow_symlinks=False) if with_status else None
                status = f" of {mark.st_size} bytes at {mark.st_mtime_ns}, {mark.st_mode:o}" if mark else ""
                yield f"{one.name}{os.sep if one.is_dir() else ''}{status}"


@cache
def _version(name: str) -> str:
    """Return the version of a distribution, or `NOT_INSTALLED`."""
    try:
        return version(name)
    except PackageNotFoundError:
        return NOT_INSTALLED


def is_absent(module: str) -> bool:
    """Return whether there is no module of a name; no package is imported to find out."""
    places, name = None, ""
    for part in module.split("."):
        name = f"{name}.{part}".removeprefix(".")
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            return True
        places = spec.submodule_search_locations
    return False


def folder_digest(path: Path) -> str:
    """Return the sha256 of the names and digests of all files in a folder."""
    whole = hashlib.sha256()
    for one in sorted(file for file in path.rglob("*") if file.is_file()):
        whole.update(f"{one.relative_to(path).as_posix()}\n{_sha256(one)}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=100_000)
def _digest(path: Path, marks: tuple[int, ...]) -> str:
    """Return the digest of a file with this status."""
    return _sha256(path)[:LETTERS]


def _variable(name: str) -> str:
    """Return the digest of a variable, or of all; of one that seems to be secret, whether it is set."""
    if name == ALL_VARIABLES:
        values = sorted(one for one in os.environ.items() if not _is_volatile(one[0]))
        return hashlib.sha256(repr(values).encode()).hexdigest()[:LETTERS]
    value = os.environ.get(name)
    if value is None or any(word in name.upper() for word in SECRET):
        return ABSENT if value is None else "set"
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:LETTERS]


def _is_volatile(name: str) -> bool:
    return name.startswith((*VOLATILE, *IN_PROVENANCE)) or name.endswith(VOLATILE_ENDS)


def changed(dependencies: Dependencies) -> list[str]:
    """Return descriptions of the inputs that have changed."""
    return [
        described(sort, name)
        for sort, found in dependencies.items()
        for name, known in found.items()
        if sort != "unobserved" and current_digest(sort, name) != known
    ]


def described(sort: str, name: str) -> str:
    """Return the description of an input."""
    if sort == "variable":
        return "the environment" if name == ALL_VARIABLES else f"${name}"
    words = {"listing": "the files in ", "existence": "the existence of "}
    words |= {"status": "the status of ", "entries": "the status of the files in "}
    return f"{words.get(sort, '')}{name}"


def undeclared(dependencies: Dependencies) -> list[str]:
    """Return descriptions of the inputs that neither a key covers nor a part declares."""
    return [described(sort, name) for sort, found in dependencies.items() for name in found if sort != "declared"]


def united(several: Iterable[Dependencies]) -> dict[str, dict[str, str]]:
    """Return the union of the inputs of several artifacts."""
    found: dict[str, dict[str, str]] = {}
    for one in several:
        for sort, names in one.items():
            found.setdefault(sort, {}).update(names)
    return found


def renamed(dependencies: Dependencies, rename: Callable[[str], str]) -> dict[str, dict[str, str]]:
    """Return inputs sorted by their names, under other names."""
    return {
        sort: {rename(name): mark for name, mark in sorted(found.items())} for sort, found in dependencies.items()
    }


def check(dependencies: object) -> None:
    """Raise ValueError unless these are inputs with their digests, as `Dependencies` has them."""
    if not isinstance(dependencies, dict) or any(
        sort not in SORTS or not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values())
        for sort, found in dependencies.items()
    ):
        raise ValueError("its observed inputs do not map names to digests")
