"""Distributions: what they declare is what they import, and each works without the others."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from bench_small.environments import environment_without

ROOT = Path(__file__).parent.parent
META = ROOT / "plugins" / "all" / "pyproject.toml"  # a name for several, without code of its own
EVERY = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]
PROJECTS = [path for path in EVERY if path != META]
DEVELOPERS = "dev"  # an extra that no code imports


def project(path):
    return tomllib.loads(path.read_text())


def package(path):
    (name,) = project(path)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return path.parent / name


@cache
def distributions():
    """Return the distributions of packages, by the records of all that is installed; ours, by their pyproject.toml."""
    return packages_distributions() | {package(path).name: [project(path)["project"]["name"]] for path in PROJECTS}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(folder):
    """Return the top-level packages that a package imports, itself and the standard library left out."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            found |= {name.partition(".")[0] for name in names}
    return found - set(sys.stdlib_module_names) - {folder.name}


def at_import(folder):
    """Return the top-level packages that modules of a package import as soon as they are imported, by module."""
    found = {}
    for path in folder.rglob("*.py"):
        nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
        found[".".join(path.relative_to(folder).with_suffix("").parts)] = {name.partition(".")[0] for name in names}
    return found


@pytest.mark.quick(4)
@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_declared_dependencies_are_the_imports(path):
    about = project(path)["project"]
    optional = [
        line for name, lines in about.get("optional-dependencies", {}).items() if name != DEVELOPERS for line in lines
    ]
    declared = {normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in about["dependencies"] + optional}
    owners = distributions()
    needed = {normal(owners.get(name, [name])[0]) for name in imported(package(path))}
    assert declared == needed


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_what_an_extra_brings_is_imported_by_no_module_that_works_without_it(path):
    """Neither by the plugin's face nor by what other plugins build on."""
    about = project(path)["project"].get("optional-dependencies", {})
    optional = {normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for lines in about.values() for line in lines}
    optional -= {
        normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in project(path)["project"]["dependencies"]
    }
    owners = distributions()
    for module, names in at_import(package(path)).items():
        if module in ("__init__", "plugin", "api", "settings", "config", "registry", "extras", "cli"):
            assert not optional & {normal(owners.get(name, [name])[0]) for name in names}, module


PLUGINS = [package(path) for path in PROJECTS if path.parent != ROOT]


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_plugins_build_on_what_others_offer_alone(folder):
    """Which is in the modules `api` and `plugin`, and in what a package names itself; all else of it may change."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or node.level or not (node.module or "").startswith("bench_"):
                continue
            owner, _, inside = (node.module or "").partition(".")
            if owner in ("bench_core", folder.name):
                continue
            modules = {inside} if inside else {alias.name for alias in node.names}
            offered = {"api", "plugin", *getattr(import_module(owner), "__all__", ())}
            assert modules <= offered, f"{path.relative_to(ROOT)} imports {modules} of {owner}"


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_every_distribution_says_what_users_need(path):
    about = project(path)["project"]
    assert about["license"] == "Apache-2.0"
    assert about["requires-python"] == ">=3.11"
    assert (path.parent / about["readme"]).read_text().count("\n") > 10
    assert (package(path) / "py.typed").is_file()
    if path.parent != ROOT:
        assert list((path.parent / "tests").glob("test_*.py"))


def test_the_changelog_knows_the_version():
    assert f"## {project(PROJECTS[0])['project']['version']}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.nightly
def test_wheels_build_and_one_plugin_works_alone(tmp_path):
    """Core and every plugin build; core with one plugin lists exactly that plugin's parts."""
    wheels = tmp_path / "wheels"
    subprocess.run([sys.executable, ROOT / "tools" / "wheels.py", wheels], check=True, capture_output=True)
    assert len(list(wheels.glob("*.whl"))) == len(EVERY)
    for path in PROJECTS:
        folder = package(path)
        (wheel,) = wheels.glob(f"{project(path)['project']['name'].replace('-', '_')}-*.whl")
        files = (file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        assert {file.relative_to(folder.parent).as_posix() for file in files} <= {*ZipFile(wheel).namelist()}
    programs = environment_without(tmp_path / "environment", (), ours=False)
    wanted = [
        path
        for name in (
            *(
                "bench_code_digests",
                "bench_input_digests",
                "bench_placed_settings",
                "bench_plain_files",
                "bench_process_watch",
            ),
            *("bench_core", "bench_rnn"),
        )
        for path in wheels.glob(f"{name}-*")
    ]
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        programs / "python",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, *wanted], check=True)
    listed = subprocess.run(
        [programs / "bench", "list", "--json"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    found = json.loads(listed.stdout)
    assert found["broken"] == {}
    assert {(part["kind"], part["distribution"].split()[0]) for part in found["parts"]} == {("model", "bench-rnn")}
    described = subprocess.run(
        [programs / "bench", "describe", "rnn-lm"], capture_output=True, text=True, cwd=tmp_path
    )
    assert "It comes with bench-authors" in described.stderr
