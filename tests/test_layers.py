"""The structure of the code: each layer imports only what stands before it, and no files import each other in circles.

Imports inside of functions count, and those for type checkers, too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Folders of the core, each built on those before it; its root, the interfaces, comes first of all.
LAYERS = ("suites", "planning", "storage", "computing", "execution", "runs", "commands")

#: Layers of which plugins that read runs, perform stages or have them performed also see what these declare to be
#: public; all other plugins see the interfaces alone.
SEEN = {
    "bench_reports": ("suites", "storage", "runs"),
    "bench_exchange": ("suites", "planning", "storage", "runs"),
    "bench_notebook": ("suites", "planning", "storage", "computing", "execution", "runs"),
    "bench_upkeep": ("suites", "planning", "storage", "execution", "runs"),
    "bench_training": ("suites", "planning", "storage", "computing", "execution", "runs"),
}

#: Know nothing of bench, nor of each other. The core and its tests import their faces.
LIBRARIES = ("block_bootstrap", "code_digests", "input_digests", "placed_settings", "plain_files", "process_watch")

#: Who imports the face of a library besides: those that read suites and runs.
SHARED = dict.fromkeys(("block_bootstrap", "input_digests", "placed_settings", "plain_files"), tuple(SEEN))

#: What plugins may import by its own name besides the face; the last for commands of theirs.
INTERFACES = ("files", "kit", "terminal", "commands.options")

#: The contracts are tests of the interfaces, and see what they test: all of the core.
TESTERS = ("bench_authors",)


def modules(root=ROOT):
    """Return the file of every module of the core and of all plugins, by name."""
    packages = [root / "bench_core", *root.glob("plugins/*/bench_*")]
    packages += [path for name in LIBRARIES for path in root.glob(f"plugins/*/{name}")]
    found = {}
    for package in packages:
        for path in package.rglob("*.py"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imported(path):
    """Return what a file imports, wherever it does: modules, and pairs of a module and a name in it."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return whole, {(node.module, alias.name) for node in froms for alias in node.names}


def imports(files):
    """Return the modules among `files` that each imports."""
    found = {}
    for name, path in files.items():
        whole, parts = imported(path)
        inner = {f"{module}.{one}" if f"{module}.{one}" in files else module for module, one in parts}
        found[name] = ((whole | inner) & {*files}) - {name}
    return found


def layer(module):
    """Return where a module of the core stands: 0 for the root. The face is above all, as it shows all."""
    parts = module.split(".")
    if module in ("bench_core", "bench_core.__main__"):
        return len(LAYERS) + 1
    return LAYERS.index(parts[1]) + 1 if parts[1] in LAYERS else 0


def upward(edges):
    """Yield every import of the core that goes up, or to a plugin."""
    for name, targets in edges.items():
        if name.partition(".")[0] == "bench_core":
            for target in (one for one in targets if one.partition(".")[0] not in LIBRARIES):
                if target.partition(".")[0] != "bench_core" or layer(target) > layer(name):
                    yield f"{name} -> {target}"


def public(layer_name):
    """Return what a layer declares to be public."""
    return {*import_module(f"bench_core.{layer_name}").PUBLIC}


def beyond(edges):
    """Yield every import of what should not be seen: by a plugin or a library, or of modules of a library."""
    for name, targets in edges.items():
        owner = name.partition(".")[0]
        for target in targets:
            package, *inside = target.split(".")
            if owner in LIBRARIES or package in LIBRARIES:
                fine = package == owner or (
                    not inside and owner in ("bench_core", *TESTERS, *SHARED.get(package, ()))
                )
            elif (
                owner == "bench_core"
                or (package in (owner, "bench_core") and not inside)
                or (owner in TESTERS and package == "bench_core")
            ):
                continue
            elif package == "bench_core":
                seen = SEEN.get(owner, ())
                fine = ".".join(inside).startswith(INTERFACES) or (seen and inside[0] not in LAYERS)
                fine = fine or (inside[0] in seen and len(inside) > 1 and inside[1] in public(inside[0]))
            else:
                fine = package == owner or not inside or inside[0] in ("api", "plugin")
            if not fine:
                yield f"{name} -> {target}"


def circle(edges):
    """Return a circle of files, or none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def circle_of_folders(edges):
    """Return a circle of folders of a package, or none; modules beside the folders do not count."""
    folders = {name: ".".join(name.split(".")[:2]) for name in edges if name.count(".") > 1}
    found = {folder: set() for folder in folders.values()}
    for name in folders:
        found[folders[name]] |= {folders[one] for one in edges[name] & {*folders}} - {folders[name]}
    return circle(found)


@pytest.mark.slow
def test_each_layer_imports_only_what_stands_before_it():
    assert [*upward(imports(modules()))] == []


def test_no_files_import_each_other_in_a_circle():
    assert circle(imports(modules())) == []


def test_no_folders_of_a_package_import_each_other_in_a_circle():
    assert circle_of_folders(imports(modules())) == []


def test_plugins_see_the_interfaces_and_readers_of_runs_what_is_public_to_them():
    assert [*beyond(imports(modules()))] == []


def test_what_a_layer_declares_public_is_there():
    files = modules()
    for name in sorted({*chain.from_iterable(SEEN.values())}):
        assert {f"bench_core.{name}.{one}" for one in public(name)} <= {*files}


@pytest.mark.parametrize(
    ("where", "line", "caught"),
    [
        ("bench_core/suites/cells.py", "from bench_core.runs.results import Run", upward),
        ("bench_core/errors.py", "def late():\n    import bench_core.storage.store", upward),
        (
            "bench_core/planning/cache_keys.py",
            "if TYPE_CHECKING:\n    from bench_core.storage.store import Store",
            upward,
        ),
        ("bench_core/suites/suite.py", "def late():\n    from bench_core.suites import load", circle),
        ("bench_core/model.py", "from bench_authors.testing import toys", upward),
        (
            "plugins/reports/bench_reports/content/labels.py",
            "import bench_reports.figures.figures",
            circle_of_folders,
        ),
        ("bench_core/runs/runner.py", "from bench_core import run", upward),
        ("bench_core/runs/runner.py", "def late():\n    from bench_authors.testing import toys", upward),
        ("bench_core/__init__.py", "from bench_authors.testing import toys", upward),
        ("plugins/rnn/bench_rnn/plugin.py", "from bench_core.storage.store import Store", beyond),
        ("plugins/rnn/bench_rnn/plugin.py", "from bench_decoders.beam import Beam", beyond),
        ("plugins/reports/bench_reports/plugin.py", "from bench_core.planning.plan import plan", beyond),
        ("plugins/exchange/bench_exchange/merge.py", "from bench_core.planning.planner import Planner", beyond),
        ("plugins/exchange/bench_exchange/merge.py", "from bench_core.computing.context import StageContext", beyond),
        ("plugins/training/bench_training/plugin.py", "from bench_core.planning.planner import Planner", beyond),
        ("plugins/training/bench_training/plugin.py", "from bench_core.execution.workers import Workers", beyond),
        ("plugins/reports/bench_reports/plugin.py", "from bench_core.runs.run_writer import Record", beyond),
        ("plugins/code-digests/code_digests/definitions.py", "from bench_core.files import digest", beyond),
        ("plugins/code-digests/code_digests/definitions.py", "def late():\n    import bench_core", beyond),
        ("plugins/process-watch/process_watch/host.py", "from bench_core.errors import PluginError", beyond),
        ("plugins/process-watch/process_watch/host.py", "from code_digests import Codebase", beyond),
        ("plugins/rnn/bench_rnn/plugin.py", "from process_watch import observe", beyond),
        ("bench_core/execution/watching.py", "from process_watch.host import Host", beyond),
        ("plugins/rnn/bench_rnn/plugin.py", "from code_digests import Codebase", beyond),
        ("bench_core/planning/stage_code.py", "from code_digests.definitions import Codebase", beyond),
    ],
)
def test_an_import_that_should_not_be_is_seen(where, line, caught, tmp_path):
    files = modules()
    parts = [part for part in Path(where).with_suffix("").parts if part != "__init__"]
    name = ".".join(parts if parts[0] == "bench_core" else parts[2:])
    planted = tmp_path / "planted.py"
    planted.write_text((ROOT / where).read_text() + "\n" + line + "\n")
    edges = imports({**files, name: planted})
    assert name in files
    assert [*caught(edges)] != []


def test_reports_are_made_without_planning_computing_or_execution():
    """A report is read and written from a run folder alone."""
    package = ROOT / "plugins/reports/bench_reports"
    names = sorted(path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py"))
    modules = [".".join(name.parts) for name in names if not {"diff", "__init__"} & {*name.parts}]
    check = f"import importlib, sys\nfor name in {modules!r}:\n    importlib.import_module(name)\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True).stdout.split()
    beyond = tuple(f"bench_core.{layer}" for layer in ("planning", "computing", "execution"))
    assert [name for name in loaded if name.startswith(beyond)] == []
    assert "bench_reports.render.report" in loaded
