"""Cache keys of artifacts: hashes of settings, inputs, code and versions, known before anything runs."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from bench_core.config import Config
from bench_core.entry_points import requirements
from bench_core.errors import DataError
from bench_core.files import digest
from bench_core.registry import installed

SCHEME = 1  #: of keys; a change makes every stored artifact a stranger

#: The files of the core that decide what a stage computes, besides all of `computing` and `kit`.
COMPUTING = (
    "config.py", "data.py", "decoder.py", "generation_loop.py", "metric.py", "model.py", "probe.py",
    "random_numbers.py", "storage/bootstrap_replicates.py", "storage/json_lines.py", "storage/outcomes.py",
    "suites/training.py", "task.py", "tensor_rows.py",
)  # fmt: skip

#: Files of a package that decide nothing: what they say is for people, or for type checkers.
DOCUMENTS = {"citations.bib", "py.typed"}


def key_of(ingredients: Mapping[str, Any]) -> str:
    """Return the sha256 of canonical JSON."""
    text = json.dumps({"scheme": SCHEME, **ingredients}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def core_code() -> str:
    """Return the digest of the computing modules of the core."""
    core = Path(__file__).parent.parent
    return _digest(core, [*(core / name for name in COMPUTING), *_files(core / "computing"), *_files(core / "kit")])


@cache
def distribution_code(distribution: str, package: str) -> Mapping[str, str]:
    """Return the code digests of a distribution and of the plugins it depends on, by name."""
    found = {distribution: package_code(package)}
    packages = {name: plugin_package for name, plugin_package in _plugin_packages().items() if name != distribution}
    for needed in requirements(distribution) or ():
        if needed in packages:
            found |= distribution_code(needed, packages[needed])
    return found


def definition_code(config: type[Config]) -> Mapping[str, str]:
    """Return the code of the plugin that defines a Config, and of those it depends on; none of other packages."""
    package = config.__module__.partition(".")[0]
    names = [name for name, owned in _plugin_packages().items() if owned == package]
    return distribution_code(names[0], package) if names else {}


@cache
def package_code(package: str) -> str:
    """Return the digest of a package: its code without docstrings and comments, and its other files."""
    spec = find_spec(package)
    if spec and spec.submodule_search_locations:
        return "+".join(_digest(folder, _files(folder)) for folder in map(Path, spec.submodule_search_locations))
    file = Path(spec.origin) if spec and spec.origin else None
    return _digest(file.parent, [file]) if file else _digest(Path(), [])


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a package that may decide what it computes."""
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and path.name not in DOCUMENTS and not path.name.endswith("~"):
            yield path


def _plugin_packages() -> dict[str, str]:
    modules = installed().manager.list_name_plugin()
    origins = installed().origins
    return {
        canonicalize_name(origins[name][0]): str(getattr(module, "__name__", "")).partition(".")[0]
        for name, module in modules
        if module is not None and name in origins
    }


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in paths):
        content = parsed(path.read_text(encoding="utf-8")) if path.suffix == ".py" else digest(path)
        whole.update(f"{name}\n{content}\n".encode())
    return whole.hexdigest()


def parsed(source: str) -> str:
    """Return the syntax tree of a module as text, without docstrings, comments and formatting."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return ast.dump(tree)


@cache
def library(name: str) -> str:
    """Return the version of a distribution, or "not installed"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def file_digest(path: Path) -> str:
    """Return the sha256 of a file that settings name; raise DataError if it cannot be read."""
    try:
        return digest(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Give the path of a file of weights.") from None
