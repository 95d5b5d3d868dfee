"""Source files of the followed packages: paths of modules, and data files next to them."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import file_digest
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from code_digests.once import Once
from code_digests.source_module import SourceModule

_SITE = {"site-packages", "dist-packages"}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def spec_of(top: str) -> ModuleSpec | None:
    """Return the spec of a top-level module without importing it; None if it is missing or has no spec."""
    try:
        return find_spec(top)
    except (ImportError, ValueError):  # a module without a spec, such as `__main__`
        return None


@dataclass
class SourceTree:
    """The sources of the followed packages: packages outside site-packages, and packages listed in `installed`."""

    followed: Callable[[str], bool] = lambda module: True  # whether to follow a module
    installed: frozenset[str] = frozenset()  # followed packages in site-packages
    silent: frozenset[str] = frozenset()  # packages whose error messages are ignored
    read: Callable[[Path], str] = lambda path: path.read_text(encoding="utf-8")
    content: Callable[[Path], str] = sha256_of
    no_data: frozenset[str] = frozenset({"py.typed"})  # names of ignored data files
    _modules: dict[str, SourceModule | None] = field(default_factory=dict)
    _homes: dict[str, list[Path]] = field(default_factory=dict)

    def files(self) -> list[Path]:
        """Return the files of all followed modules that were looked up so far."""
        return sorted(module.path for module in self._modules.values() if module is not None)

    def module(self, name: str) -> SourceModule | None:
        """Return a followed module, or None."""
        if name not in self._modules:
            path = self.path(name) if self.followed(name) else None
            source = path is not None and path.suffix == ".py"
            silent = name.partition(".")[0] in self.silent
            self._modules[name] = SourceModule.parse(name, path, self.read(path), silent) if path and source else None
        return self._modules[name]

    def is_module(self, name: str) -> bool:
        return self.module(name) is not None or self.path(name) is not None

    @Once
    def path(self, name: str) -> Path | None:
        """Return the file of a module of a followed package without importing it."""
        top, _, rest = name.partition(".")
        for home in self.homes(top):
            if home.is_file():
                return home if not rest else None
            base = os.path.join(home, *rest.split(".")) if rest else str(home)
            if "__init__.py" in self._names_in(base):
                return Path(base, "__init__.py")
            folder, last = os.path.split(base)
            for suffix in (".py", *EXTENSION_SUFFIXES) if rest else ():
                if last + suffix in self._names_in(folder):
                    return Path(base + suffix)
        return None

    @Once
    def _names_in(self, folder: str) -> frozenset[str]:
        """Return the names in a folder, listed once; empty if it is not a folder."""
        try:
            return frozenset(os.listdir(folder))
        except OSError:
            return frozenset()

    def homes(self, top: str) -> list[Path]:
        """Return the folders or the file of a top-level module; empty if it is not followed."""
        if top not in self._homes:
            self._homes[top] = self._find_homes(top)
        return self._homes[top]

    def _find_homes(self, top: str) -> list[Path]:
        if not top.isidentifier() or top in sys.stdlib_module_names or top in sys.builtin_module_names:
            return []
        if (spec := spec_of(top)) is None:
            return []
        places = [*map(Path, spec.submodule_search_locations or [])] or [Path(spec.origin or "")]
        return [place for place in places if place.exists() and (top in self.installed or not _SITE & {*place.parts})]

    def modules_of(self, top: str) -> Iterator[str]:
        """Yield the names of all modules of a package."""
        for home in self.homes(top):
            for path in sorted(home.rglob("*.py") if home.is_dir() else ()):
                parts = path.relative_to(home).with_suffix("").parts
                name = ".".join([top, *(parts[:-1] if parts[-1] == "__init__" else parts)])
                if self.module(name):
                    yield name

    def data_files(self, name: str) -> Iterator[Path]:
        """Yield the non-Python files next to a module, including files in subfolders that are not packages."""

        def below(folder: Path) -> Iterator[Path]:
            for path in sorted(folder.iterdir()):
                if path.name.startswith(".") or path.name.endswith("~"):
                    continue
                if path.is_dir():
                    if path.name != "__pycache__" and not (path / "__init__.py").exists():
                        yield from below(path)
                elif path.suffix not in (".py", ".pyc", ".pyi") and path.name not in self.no_data:
                    yield path

        path = self.path(name)
        yield from below(path.parent) if path else ()
