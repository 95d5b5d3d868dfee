"""Settings of all tests, and shared fixtures."""

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

os.environ.setdefault("OMP_NUM_THREADS", "1")  # waiting threads use CPU time, too
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # so that they sleep in suites with several threads
# if one is set, pytest shows full diffs for every failure, even expected ones, which takes minutes for long lists
for name in ("CI", "BUILD_NUMBER"):
    os.environ.pop(name, None)

# plugins that are not installed: `make setup` omits those for clusters
collect_ignore = [
    str(package.parent.relative_to(Path(__file__).parent))
    for package in Path(__file__).parent.glob("plugins/*/bench_*")
    if find_spec(package.name) is None
]

# tests that interrupt child processes also work under nohup, which ignores SIGINT
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Write bytecode for imported modules even if Python is configured not to: all test processes need it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", False)
        return (yield)


def pytest_collection_finish():
    """Exclude tests and libraries, which stay in memory, from garbage collection."""
    gc.freeze()


def pytest_sessionfinish():
    """Skip the garbage collection of pytest at the end of the process."""
    gc.freeze()


def pytest_runtest_setup(item):
    """Skip tests marked `extra(distribution, extra)` if the extra is not installed."""
    for mark in item.iter_markers("extra"):
        if missing := extras.missing(mark.args[0], mark.args[1:]):
            pytest.skip(f"requires {mark.args[0]}[{','.join(mark.args[1:])}]: {extras.command(missing)}")


def pytest_addoption(parser):
    """Add the option `--full-contracts` for `make nightly`."""
    parser.addoption("--full-contracts", action="store_true", help="run contracts with all samples and updates")


@pytest.fixture(autouse=True, scope="session")
def small_contracts(request):
    """Run contracts with fewer samples and updates, enough for models of a few units."""
    from bench_authors.testing import leaks, models

    with pytest.MonkeyPatch.context() as patch:
        if not request.config.option.full_contracts:
            patch.setattr(leaks, "STEPS", 30)
            patch.setattr(models, "SAMPLES", 5_000)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_fsync():
    """Disable fsync: no test simulates a power failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_code_watch():
    """Disable the check of executed code after each stage in this process; workers and its own tests enable it."""
    from bench_core.computing import looks
    from bench_core.execution.performing import WATCH

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WATCH, "idle", True)
        patch.setattr(looks, "MAX_REPEATED_SHARE", 2.0)  # small data sets repeat examples
        yield


@pytest.fixture(autouse=True)
def reset_observed_inputs():
    """Forget the files read in a test, which later stages in this process would check again."""
    before = observed_inputs._readings.copy()
    yield
    observed_inputs._readings.clear()
    observed_inputs._readings.update(before)


@pytest.fixture
def small():
    """Install the plugin of tests/small during a test."""
    import bench_small.plugin

    from bench_core import registry

    with registry.extra(bench_small.plugin):
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return the folder of a finished run of the small suite, with `store` and `runs`; tests read or copy it."""
    import bench_small.plugin

    import bench_core
    from bench_core import registry

    folder = tmp_path_factory.mktemp("finished")
    (folder / "suite.yaml").write_text(dedent(SUITE))
    with registry.extra(bench_small.plugin):
        bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder)
    before = _contents(folder)
    yield folder
    assert _contents(folder) == before, "a test has changed the shared run"


def _contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def writers():
    """Install the plugin of text systems (tests/small/bench_writers) during a test."""
    import bench_writers.plugin

    from bench_core import registry

    with registry.extra(bench_writers.plugin):
        yield


@pytest.fixture
def suite_file(tmp_path, small):
    """Return a function that writes a suite, by default the small one, and returns its path."""

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
    """Return a function that runs a suite in this process, with a store for this test."""
    import bench_core

    return lambda path: bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
