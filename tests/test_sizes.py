"""The core stays one that can be read in an afternoon: lines by folder, by module, by function.

Whoever raises a limit says why in the commit; what is listed as larger may only shrink.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = ROOT / "bench_core"
#: Lines of the folders of the core; of the files beside them under its own name. The goal is 15,500 in all.
FOLDERS = {
    "bench_core": 2_879,
    "commands": 890,
    "computing": 2_546,
    "execution": 1_497,
    "kit": 863,
    "planning": 1_262,
    "runs": 2_635,
    "storage": 1_082,
    "suites": 1_627,
}
MODULE, FUNCTION, PARAMETERS = 350, 40, 10
#: Modules that are longer, with their lines.
MODULES = {}
#: Functions that are longer, with their lines.
FUNCTIONS = {
    "plugins/notebook/bench_notebook/evaluating.py:evaluate": 45,
}
#: Functions with more parameters, with their number.
SIGNATURES = {
    "plugins/notebook/bench_notebook/evaluating.py:evaluate": 14,
}


def sources():
    packages = [CORE, *(path.parent for path in ROOT.glob("plugins/*/*/py.typed"))]
    return sorted(path for package in packages for path in package.rglob("*.py"))


def lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def functions():
    """Return all functions of the core and of plugins, by `file:name`; of several, the longest."""
    found = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                number = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                known = found.get(name := f"{path.relative_to(ROOT)}:{node.name}", (0, 0))
                found[name] = max(known[0], length), max(known[1], number)
    return found


def unlike(found, limit, larger):
    """Yield what is above the limit and not listed, what has grown, and what is listed and need not be."""
    for name in sorted(found.keys() | larger.keys()):
        size, allowed = found.get(name, 0), larger.get(name, limit)
        if size > allowed:
            yield f"{name} has {size}, and {allowed} are allowed"
        elif name in larger and size <= limit:
            yield f"{name} has {size}: take it out of the list"


def test_no_folder_of_the_core_grows():
    found = Counter()
    for path in CORE.rglob("*.py"):
        inside = path.relative_to(CORE).parts
        found[inside[0] if len(inside) > 1 else CORE.name] += lines(path)
    assert [*unlike(found, 0, FOLDERS)] == []


def test_modules_are_short():
    found = {path.relative_to(ROOT).as_posix(): lines(path) for path in sources()}
    assert [*unlike(found, MODULE, MODULES)] == []


def test_functions_are_short_and_take_few_arguments():
    assert [*unlike({name: length for name, (length, _) in functions().items()}, FUNCTION, FUNCTIONS)] == []
    assert [*unlike({name: number for name, (_, number) in functions().items()}, PARAMETERS, SIGNATURES)] == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"a": 351}, ["a has 351, and 350 are allowed"]),
        ({"b": 401}, ["b has 401, and 400 are allowed"]),
        ({"b": 399, "a": 350}, []),
        ({"b": 350}, ["b has 350: take it out of the list"]),
    ],
)
def test_growth_is_seen(found, told):
    assert [*unlike({"b": 400, **found}, 350, {"b": 400})] == told
