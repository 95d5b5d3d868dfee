"""Distributions: what they declare is what they import, and each works without the others."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
PROJECTS = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]


def project(path):
    return tomllib.loads(path.read_text())


def package(path):
    (name,) = project(path)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return path.parent / name


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


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_declared_dependencies_are_the_imports(path):
    declared = {
        normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in project(path)["project"]["dependencies"]
    }
    owners = packages_distributions()
    needed = {normal(owners.get(name, [name])[0]) for name in imported(package(path))}
    assert declared == needed


PLUGINS = [path for path in sorted((ROOT / "plugins").glob("*/bench_*")) if path.is_dir()]


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_plugins_build_on_what_others_offer_alone(folder):
    """Which is in the modules `api` and `plugin`; all else of a plugin may change."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or node.level or not (node.module or "").startswith("bench_"):
                continue
            owner, _, inside = (node.module or "").partition(".")
            if owner in ("bench_core", folder.name):
                continue
            modules = {inside} if inside else {alias.name for alias in node.names}
            assert modules <= {"api", "plugin"}, f"{path.relative_to(ROOT)} imports {modules} of {owner}"


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


@pytest.mark.slow
def test_wheels_build_and_one_plugin_works_alone(tmp_path):
    """Core and every plugin build; core with one plugin lists exactly that plugin's parts."""
    wheels = tmp_path / "wheels"
    for path in PROJECTS:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", wheels, path.parent]
        subprocess.run(command, check=True, capture_output=True)
    assert len(list(wheels.glob("*.whl"))) == len(PROJECTS)
    (core,) = wheels.glob("bench_core*.whl")
    assert {
        "bench_core/reporting/templates/report.md.j2",
        "bench_core/reporting/templates/page.js",
        "bench_core/corpora.yaml",
        "bench_core/py.typed",
    } <= set(ZipFile(core).namelist())
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            *wheels.glob("bench_core*"),
            *wheels.glob("bench_rnn*"),
        ],
        check=True,
    )
    # third parties come from the environment at hand, the project itself does not: its finders are not followed
    site = environment / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    ours = ("bench", "_bench", "__editable__", "_editable")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(ours) and entry.suffix != ".pth" and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    listed = subprocess.run(
        [environment / "bin" / "bench", "list", "--json"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    found = json.loads(listed.stdout)
    assert found["broken"] == {}
    assert {(part["kind"], part["distribution"].split()[0]) for part in found["parts"]} == {("model", "bench-rnn")}
    subprocess.run(
        [environment / "bin" / "bench", "describe", "model", "rnn-lm"], check=True, capture_output=True, cwd=tmp_path
    )
