"""What holds for all tests, and the fixtures that many share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest
from bench_small.suites import SUITE

from bench_core.suites import extras
from process_watch import observed_inputs

pytest_plugins = ["cpu_seconds"]

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait for each other take CPU seconds too
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # fewer if they sleep, where suites ask for several
# where one is set pytest explains each failure by a whole diff, expected ones too: minutes for long lists
for name in ("CI", "BUILD_NUMBER"):
    os.environ.pop(name, None)

# plugins that are not installed, as those for clusters are not by `make setup`
collect_ignore = [
    str(package.parent.relative_to(Path(__file__).parent))
    for package in Path(__file__).parent.glob("plugins/*/bench_*")
    if find_spec(package.name) is None
]

# some interrupt what they start, also where signals to interrupt were ignored (nohup)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep compiled what is imported, even where Python is told not to: all processes of the tests need it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", False)
        return (yield)


def pytest_collection_finish():
    """Look for garbage among what tests make, not among tests and libraries, which stay."""
    gc.freeze()


def pytest_sessionfinish():
    """Look for none at the end of the process, as pytest does among all that is left."""
    gc.freeze()


def pytest_runtest_setup(item):
    """Skip a test of what an extra brings, `extra(distribution, extra)`, where that is not installed."""
    for mark in item.iter_markers("extra"):
        if missing := extras.missing(mark.args[0], mark.args[1:]):
            pytest.skip(f"needs {' '.join(mark.args[1:])} of {mark.args[0]}: {extras.command(missing)}")


def pytest_addoption(parser):
    """Add the option of `make nightly` for contracts."""
    parser.addoption("--full-contracts", action="store_true", help="try contracts with all samples and updates")


@pytest.fixture(autouse=True, scope="session")
def contracts_of_small_size(request):
    """Have contracts draw fewer samples and train for fewer updates, enough for models of a few units."""
    from bench_authors.testing import leaks, models

    with pytest.MonkeyPatch.context() as patch:
        if not request.config.option.full_contracts:
            patch.setattr(leaks, "STEPS", 30)
            patch.setattr(models, "DRAWS", 5_000)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_disks():
    """Have no write wait until it would survive a loss of power, which no test can cause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_watching_of_code():
    """Do not look after each stage in this process at all code; workers do, and tests of it."""
    from bench_core.computing import looks
    from bench_core.execution.performing import WATCH

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WATCH, "idle", True)
        patch.setattr(looks, "MANY", 2.0)  # small data repeat their examples
        yield


@pytest.fixture(autouse=True)
def no_readings_of_other_tests():
    """Forget after a test what was read in it, which later stages of this process would look at again and again."""
    before = observed_inputs._readings.copy()
    yield
    observed_inputs._readings.clear()
    observed_inputs._readings.update(before)


@pytest.fixture
def small():
    """Install the plugin of tests/small for the time of a test."""
    import bench_small.plugin

    from bench_core import registry

    with registry.extra(bench_small.plugin):
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return the folder of the small suite, with its `store` and its `runs`; tests read it, or copy it and go on."""
    import bench_small.plugin

    import bench_core
    from bench_core import registry

    folder = tmp_path_factory.mktemp("finished")
    (folder / "suite.yaml").write_text(dedent(SUITE))
    with registry.extra(bench_small.plugin):
        bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder)
    before = _contents(folder)
    yield folder
    assert _contents(folder) == before, "a test has changed the run that others read"


def _contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def writers():
    """Install the plugin of systems that read prompts as text for the time of a test."""
    import bench_writers.plugin

    from bench_core import registry

    with registry.extra(bench_writers.plugin):
        yield


@pytest.fixture
def suite_file(tmp_path, small):
    """Return a function that writes a suite, the small one or another, and returns its path."""

    def write(text=SUITE, **replaced):
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "suite.yaml"
        path.write_text(dedent(text))
        return path

    return write


@pytest.fixture
def run_here(tmp_path):
    """Return a function that runs a suite in this process, with a store of the test."""
    import bench_core

    return lambda path: bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
