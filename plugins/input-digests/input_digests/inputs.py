"""Digests of inputs by name: files, folders, environment variables and libraries.

A result is up to date if all its inputs are unchanged. Paths in a package are recorded relative to the package;
other relative paths are recorded unchanged.
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

#: sort of input -> name -> digest; for `unobserved` inputs, the modules that read them
Dependencies: TypeAlias = Mapping[str, Mapping[str, str]]

ABSENT, NOT_INSTALLED = "absent", "not installed"
ALL_VARIABLES = "*"  #: stands for all variables
SORTS = ("file", "declared", "existence", "status", "listing", "entries", "variable", "library", "unobserved")
DIGEST_LENGTH = 32  # characters
#: Prefixes of volatile variables, ignored when all variables are read.
VOLATILE = (
    "_", "PWD", "OLDPWD", "SHLVL", "TERM", "SSH_", "XDG_", "PYTEST_", "CUDA_VISIBLE_DEVICES", "COLUMNS",
    "LINES", "WINDOWID", "DBUS_", "INVOCATION_ID", "JOURNAL_STREAM",
)  # fmt: skip
VOLATILE_ENDS = ("_GPUS",)  #: suffixes of volatile variables, which name devices assigned by a scheduler
#: Prefixes of variables that affect the computation and that programs record separately.
IN_PROVENANCE = ("OMP_", "MKL_", "KMP_", "ATEN_", "OPENBLAS_", "LC_", "LANG", "TZ")
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")  # words in variable names whose values are not recorded


def named(path: str, relative: str = "") -> str:
    """Return the recorded name of a path: relative to its package, if this is loaded, else the original path."""
    package, home = _package_of(path)
    inside = f"<{package}>{os.sep}{path[len(home) :]}" if package else ""
    return inside or relative or path


def _package_of(path: str) -> tuple[str, str]:
    """Return the top-level package that contains a path, and its folder; empty strings if there is none."""
    packages, home = _packages(len(sys.modules)), path
    while home := home.rpartition(os.sep)[0]:
        if name := packages.get(home):
            return name, f"{home}{os.sep}"
    return "", ""


@lru_cache(maxsize=1)
def _packages(number: int) -> dict[str, str]:
    """Return the names of the loaded top-level packages by their folders."""
    homes = [(getattr(module, "__path__", None), name) for name, module in [*sys.modules.items()] if "." not in name]
    first = ((next(iter(places), None), name) for places, name in sorted(homes, key=lambda home: home[1]) if places)
    return {home: name for home, name in first if isinstance(home, str)}


def _path_of(name: str) -> str:
    """Return the path with this recorded name."""
    package, bracket, rest = name[1:].partition(">") if name.startswith("<") else ("", "", "")
    spec = find_spec(package) if bracket and package.isidentifier() else None
    homes = spec.submodule_search_locations if spec else None
    return f"{next(iter(homes))}{rest}" if homes else name


def current_digest(sort: str, name: str) -> str:
    """Return the current digest of an input."""
    if sort == "variable":
        return _variable(name)
    if sort == "library":
        known = _version(name)
        return known if known != NOT_INSTALLED or not is_absent(name) else ABSENT
    path, link = Path(_path_of(name)), ""
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
            return folder_digest(path)[:DIGEST_LENGTH]
        if sort in ("listing", "entries"):
            names = "\n".join(sorted(_entries(path, sort == "entries")))
            return hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_LENGTH]
        marks = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        return _digest(path, marks) if stat.S_ISREG(status.st_mode) else "no file"
    except (FileNotFoundError, NotADirectoryError):
        return f"{ABSENT}{link}"
    except (OSError, ValueError) as error:
        return f"unreadable ({getattr(error, 'strerror', None) or error})"


def _entries(folder: Path, with_status: bool) -> Iterator[str]:
    """Yield a description of each file in a folder: its name, whether it is a folder, and its status."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name != "__pycache__":
                mark = entry.stat(follow_symlinks=False) if with_status else None
                status = f" of {mark.st_size} bytes at {mark.st_mtime_ns}, {mark.st_mode:o}" if mark else ""
                yield f"{entry.name}{os.sep if entry.is_dir() else ''}{status}"


@cache
def _version(name: str) -> str:
    """Return the version of a distribution, or `NOT_INSTALLED`."""
    try:
        return version(name)
    except PackageNotFoundError:
        return NOT_INSTALLED


def is_absent(module: str) -> bool:
    """Return whether a module does not exist; packages are not imported."""
    places, name = None, ""
    for part in module.split("."):
        name = f"{name}.{part}".removeprefix(".")
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            return True
        places = spec.submodule_search_locations
    return False


def folder_digest(path: Path) -> str:
    """Return the SHA-256 digest of the names and digests of all files in a folder."""
    whole = hashlib.sha256()
    for path_of_file in sorted(file for file in path.rglob("*") if file.is_file()):
        whole.update(
            f"{path_of_file.relative_to(path).as_posix()}\n{_sha256(path_of_file)}\n".encode(
                "utf-8", "surrogateescape"
            )
        )
    return whole.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=100_000)
def _digest(path: Path, marks: tuple[int, ...]) -> str:
    """Return the digest of a file with this status."""
    return _sha256(path)[:DIGEST_LENGTH]


def _variable(name: str) -> str:
    """Return the digest of a variable or of all variables; for secret variables, whether they are set."""
    if name == ALL_VARIABLES:
        values = sorted(item for item in os.environ.items() if not _is_volatile(item[0]))
        return hashlib.sha256(repr(values).encode()).hexdigest()[:DIGEST_LENGTH]
    value = os.environ.get(name)
    if value is None or any(word in name.upper() for word in SECRET):
        return ABSENT if value is None else "set"
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_LENGTH]


def _is_volatile(name: str) -> bool:
    return name.startswith((*VOLATILE, *IN_PROVENANCE)) or name.endswith(VOLATILE_ENDS)


def changed(dependencies: Dependencies) -> list[str]:
    """Return descriptions of the inputs that have changed."""
    return [
        described(sort, name)
        for sort, digests in dependencies.items()
        for name, known in digests.items()
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
    """Return descriptions of the inputs that are neither covered by a key nor declared by a part."""
    return [described(sort, name) for sort, digests in dependencies.items() for name in digests if sort != "declared"]


def united(several: Iterable[Dependencies]) -> dict[str, dict[str, str]]:
    """Return the union of the inputs of several artifacts."""
    union: dict[str, dict[str, str]] = {}
    for inputs in several:
        for sort, names in inputs.items():
            union.setdefault(sort, {}).update(names)
    return union


def renamed(dependencies: Dependencies, rename: Callable[[str], str]) -> dict[str, dict[str, str]]:
    """Return inputs sorted by name, with `rename` applied to their names."""
    return {
        sort: {rename(name): mark for name, mark in sorted(digests.items())} for sort, digests in dependencies.items()
    }


def check(dependencies: object) -> None:
    """Raise ValueError unless `dependencies` maps each sort to a mapping from names to digests."""
    if not isinstance(dependencies, dict) or any(
        sort not in SORTS
        or not isinstance(digests, dict)
        or not all(isinstance(digest, str) for digest in digests.values())
        for sort, digests in dependencies.items()
    ):
        raise ValueError("its observed inputs do not map names to digests")
