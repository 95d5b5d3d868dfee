"""What may be imported from where, and at what cost."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import bench_core
from bench_core.entry_points import PARTS

CORE = Path(bench_core.__file__).parent
SOURCES = sorted(CORE.rglob("*.py"))
HEAVY = ("torch", "numpy", "spacy", "scipy", "transformers", "nltk", "matplotlib")
WITH_TORCH = {
    "memory_errors.py",
    "batch_parts.py",
    "evaluate.py",
    "evaluating.py",
    "guarded_log_probs.py",
    "second_look.py",
}  # a worker imports these when it trains or evaluates a model; nothing else does
#: A worker that measures imports these, and a report.
WITH_NUMPY = {"bootstrap_replicates.py", "bootstrap.py", "block_length.py"}
#: Models import these, through the face of the kit, which loads them on first use.
KIT_WITH_TORCH = {f"kit/{name}.py" for name in ("cache", "encoder_decoder", "head", "language_model", "recurrent")}
#: `evaluate` imports this where a function stands for a model.
MODEL_OF_A_FUNCTION = {"runs/text_functions.py"}
#: `LoadedRun.model` imports this.
MODEL_OF_A_RUN = {"runs/trained_model.py"}
PLUGINS = sorted(entry_points(group=PARTS), key=lambda entry: entry.name)
HOOKS = {"bench_models", "bench_decoders", "bench_tasks", "bench_metrics"}  # packages may be called so too
#: what a message tells to install, by where it stands
TO_INSTALL = {
    "optional.py": {"bench-authors", "bench-notebook", "bench-reports", "bench-training"},
    "__init__.py": {"bench-notebook", "bench_notebook"},
    "commands/main.py": {
        *("bench-authors", "bench-exchange", "bench-recorded", "bench-reports", "bench-text", "bench-upkeep"),
    },
    "runs/reporting.py": {"bench-reports"},
    "commands/new.py": {"bench-decoders", "bench-text"},
}
by_plugin = pytest.mark.parametrize("entry", PLUGINS, ids=lambda entry: entry.name)
by_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CORE)))


def imported(code, *modules):
    """Return those of `modules` that are loaded after running `code` in a process of its own."""
    check = f"{code}\nimport sys\nprint(*[name for name in {modules!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_importing_the_core_imports_neither_torch_nor_pydantic():
    assert imported("import bench_core", *HEAVY, "pydantic", "pluggy", "rich", "jinja2") == []


def test_the_interfaces_import_no_torch():
    assert imported("from bench_core import Batch, Stepper, Task, Metric, Rng, ModelConfig, generate", *HEAVY) == []


def test_reading_claims_imports_no_numpy():
    assert (
        imported(
            "import bench_reports.language.claim_check, bench_reports.content.claims, bench_core.suites.suite", *HEAVY
        )
        == []
    )


def test_every_public_name_can_be_had():
    assert sorted(bench_core.__all__) == sorted(set(bench_core.__all__))
    for name in bench_core.__all__:
        assert getattr(bench_core, name) is not None
    assert set(bench_core._HOME) | {"API"} == set(bench_core.__all__)
    with pytest.raises(AttributeError, match="'bench_core' has no attribute 'stepper'"):
        _ = bench_core.stepper


def test_every_public_name_is_shown_before_it_is_loaded():
    shown = "import sys, bench_core; sys.exit(not {*bench_core.__all__} <= {*dir(bench_core)})"
    assert imported(shown, "bench_core.data", "torch") == []


def test_every_public_name_is_there_for_type_checkers_too():
    tree = ast.parse((CORE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name: node.module for node in block.body for alias in node.names}
    assert names == {name: f"bench_core.{home}" for name, home in bench_core._HOME.items()}


def test_no_public_name_is_that_of_a_module():
    """Or importing the module would hide the name."""
    assert not set(bench_core.__all__) & {path.stem for path in CORE.glob("*.py")}


@pytest.fixture(scope="module")
def light():
    """Return whether no plugin imports anything heavy, by one process for all."""
    return not imported("import " + ", ".join(entry.module for entry in PLUGINS), *HEAVY)


@by_plugin
def test_the_face_of_a_plugin_is_light(entry, light):
    assert light or imported(f"import {entry.module}", *HEAVY) == []


@by_plugin
def test_every_part_of_a_plugin_says_what_it_is(entry):
    for hook in sorted(HOOKS):
        for config in getattr(entry.load(), hook, list)():
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", config.name), config
            assert re.fullmatch(r"[\w.]+:\w+", config.target), config
            assert config.__doc__, config


@pytest.fixture(scope="module")
def distributions():
    return {entry.dist.name for entry in PLUGINS}


@by_source
def test_the_core_names_no_plugin(path, distributions):
    packages = {entry.module.partition(".")[0] for entry in PLUGINS}
    assert not {name.partition(".")[0] for name in _imports(path)} & packages
    names = (packages | distributions) - HOOKS - TO_INSTALL.get(path.relative_to(CORE).as_posix(), set())
    text = path.read_text()
    assert not [name for name in names if name in text]


@by_source
def test_the_core_imports_torch_only_where_it_is_needed(path):
    if (
        path.name in WITH_TORCH | WITH_NUMPY
        or path.relative_to(CORE).as_posix() in KIT_WITH_TORCH | MODEL_OF_A_FUNCTION | MODEL_OF_A_RUN
    ):
        return
    assert not {name.partition(".")[0] for name in _at_once(ast.parse(path.read_text()).body)} & set(HEAVY)


def _at_once(body):
    """Yield the modules that are imported when a file is, outside of functions and `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _at_once(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _at_once(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _at_once(handler.body)


@pytest.mark.quick(4)
@by_source
def test_nothing_that_runs_depends_on_what_is_there_for_tests(path):
    """`bench check --contracts` finds the contracts by name."""
    assert not [name for name in _imports(path) if name.startswith(("bench_authors", "pytest"))]


def _imports(path):
    """Yield every module that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
