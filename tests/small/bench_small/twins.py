"""A plugin that provides every name of every kind that others provide."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType

import pytest

from bench_core import registry

PART = """
class {name}({module}.{base}):
    name = {part!r}
"""
HOOK = """
@bench_core.hookimpl
def bench_{kind}s():
    return [{names}]
"""


def source(kinds: Iterable[str], packages: Iterable[str] = ()) -> str:
    """Return the code of a plugin with a part for each that is installed, of some packages or all."""
    modules, parts, hooks = {"bench_core"}, [], []
    for kind in kinds:
        found = [one for one in registry.parts(kind).values() if not packages or one.package in packages]
        names = [f"{kind.title()}{place}" for place, _ in enumerate(found)]
        for name, one in zip(names, found, strict=True):
            module, base = one.config.__module__, one.config.__qualname__
            modules.add(module)
            parts.append(PART.format(name=name, module=module, base=base, part=one.config.name))
        hooks.append(HOOK.format(kind=kind, names=", ".join(names)))
    imports = [f"import {one}\n" for one in sorted(modules)]
    return "".join(['"""Twins."""\n', *imports, *parts, *hooks])


@contextmanager
def twin(folder: Path, packages: Iterable[str] = (), name: str = "bench_twin") -> Iterator[ModuleType]:
    """Yield the module of such a plugin in a folder, importable but not registered."""
    (folder / f"{name}.py").write_text(source(registry.kinds(), packages))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        invalidate_caches()
        yield import_module(name)
    del sys.modules[name]
