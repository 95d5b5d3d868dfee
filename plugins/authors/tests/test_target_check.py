"""The target class of a Config is searched in the source, and imported only if the source is inconclusive."""

from __future__ import annotations

import sys

import pytest

from bench_authors.target_check import _problem, target_problem
from bench_core import ModelConfig, Stepper


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes a module of the package `ours`."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def write(text, name="model"):
        (tmp_path / "ours" / f"{name}.py").write_text(text)
        _problem.cache_clear()

    yield write
    for name in [loaded for loaded in sys.modules if loaded.partition(".")[0] == "ours"]:
        del sys.modules[name]
    _problem.cache_clear()


def problem(target, **more):
    return target_problem(
        type("OurConfig", (ModelConfig,), {"name": "our", "target": target, "capabilities": {Stepper}, **more})
    )


@pytest.mark.parametrize(
    "text",
    [
        "class Model: pass",
        "def Model(config, info): pass",
        "Model = object",
        "Model: type = object",
        "from elsewhere import Other as Model",
        "from elsewhere import Model",
        "try:\n    from fast import Model\nexcept ImportError:\n    class Model: pass",
        "if True:\n    pass\nelse:\n    class Model: pass",
        "from elsewhere import *\nclass Model: pass",
    ],
)
def test_a_class_defined_or_imported_in_a_module_is_found_without_import(package, text):
    package(f"{text}\nimport nothing_of_that_name")
    assert problem("ours.model:Model") is None
    assert "ours.model" not in sys.modules


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ours.model:Modle", "ours.model has no Modle. Did you mean 'Model'?"),
        ("ours.modle:Model", "there is no module ours.modle. Did you mean 'model'?"),
        ("theirs.model:Model", "there is no module theirs. Correct it, or install its distribution."),
        ("ours.model", "it is not `module:Class`."),
        ("", "it is not `module:Class`."),
        (":Model", "it is not `module:Class`."),
    ],
)
def test_a_missing_target_is_reported_with_a_suggestion(package, target, message):
    package("class Model: pass\nimport nothing_of_that_name")
    text = problem(target)
    assert f"OurConfig: its target is {target!r}, but " in text
    assert message in text
    assert "ours.model" not in sys.modules


def test_a_syntax_error_is_reported_with_its_line(package):
    package("class Model:\n    pass\nclass Other\n")
    assert "model.py:3: " in problem("ours.model:Model")


@pytest.mark.parametrize(
    "text",
    [
        "from string import *",
        "def __getattr__(name):\n    if name == 'digits': return 3\n    raise AttributeError(name)",
    ],
)
def test_a_module_with_inconclusive_source_is_imported(package, text):
    package(text)
    assert problem("ours.model:digits") is None
    assert "AttributeError" in problem("ours.model:Model")


def test_a_config_with_its_own_load_is_loaded(package):
    def load(cls):
        raise ImportError("no such library")

    assert "its target cannot be imported: ImportError: no such library" in problem("", load=classmethod(load))
    assert problem("", load=classmethod(lambda cls: object)) is None


def test_a_package_that_cannot_be_imported_is_reported_with_the_reason(package, tmp_path):
    (tmp_path / "ours" / "__init__.py").write_text("raise ImportError('half installed')")
    assert "its package cannot be imported: ImportError: half installed" in problem("ours.model:Model")


def test_a_package_that_exits_on_import_is_reported(package, tmp_path):
    (tmp_path / "ours" / "__init__.py").write_text("import sys\nsys.exit(0)")
    assert "its package cannot be imported: SystemExit: 0" in problem("ours.model:Model")


def test_a_class_that_exits_on_loading_is_reported(package):
    assert "its target cannot be imported: SystemExit: 0" in problem("", load=classmethod(lambda cls: sys.exit(0)))


def test_the_classes_of_all_installed_parts_are_found_in_the_source():
    from bench_core.registry import kinds, parts

    problems = {
        f"{kind} {name}": target_problem(part.config) for kind in kinds() for name, part in parts(kind).items()
    }
    assert {name: text for name, text in problems.items() if text} == {}
