"""Run tests for `make mutants`, each request in a fork of a process that has only imported third-party packages.

It runs with the Python of a scratch clone, reads one JSON request per line, prints the process id of the fork, and
its CPU seconds when it has ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

THIRD_PARTIES = (
    "numpy",
    "torch",
    "pydantic",
    "rich",
    "ruamel.yaml",
    "safetensors",
    "psutil",
    "scipy.stats",
    "jinja2",
    "tabulate",
)
FAST = "not slow and not nightly"
UNUSED = ("cacheprovider", "xdist", "xdist.looponfail", "anyio")  # pytest plugins that are slow to load
MAX_CASES = 4  # maximum cases of a parametrized test, besides cases whose names contain a word of the request
GIB = 2**30


class LineWatch:
    """A pytest plugin that deselects tests, and writes a line when a test starts, passes or fails."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.only, self.excluded, self.words = request["only"], set(request["excluded"]), request["words"]
        self.events = open(Path(request["folder"]) / "events", "a", encoding="utf-8")  # noqa: SIM115
        self.failed = ""

    def _write(self, event: str, test: str) -> None:
        print(event, f"{cpu_seconds():.2f}", test, file=self.events, flush=True)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        seen: Counter[str] = Counter()
        excluded = []
        for item in items:
            function, _, case = item.nodeid.partition("[")
            seen[function] += 1
            near = seen[function] <= MAX_CASES or any(word in case for word in self.words)
            wanted = near if self.only is None else item.nodeid in self.only
            if not wanted or item.nodeid in self.excluded:
                excluded.append(item)
        config.hook.pytest_deselected(items=excluded)
        items[:] = [item for item in items if item not in excluded]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("failed", report.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("started", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid
            self._write("failed", report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if nodeid != self.failed:
            self._write("passed", nodeid)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    return sum(os.times()[:4])


def run(request: dict[str, Any]) -> None:
    """Run the fast tests in `files`, restricted to `only` if given, and write the exit code."""
    folder = Path(request["folder"])
    options = [f"-pno:{name}" for name in UNUSED]
    options += ["-x", "-m", FAST, f"--basetemp={folder / 'pytest'}"]
    code = pytest.main([*options, *request["files"]], plugins=[LineWatch(request)])
    (folder / "code").write_text(str(int(code)), encoding="utf-8")


def answer(request: dict[str, Any]) -> None:
    """Run a request in this fork, with limited memory and file sizes because mutants may not terminate."""
    try:
        os.setsid()
        for kind, limit in ((resource.RLIMIT_DATA, 6 * GIB), (resource.RLIMIT_FSIZE, GIB)):
            with contextlib.suppress(ValueError, OSError):  # not supported by every system
                resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
        log = os.open(Path(request["folder"]) / "log", os.O_WRONLY | os.O_CREAT)
        for stream, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
            os.dup2(file, stream)
        run(request)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def serve() -> None:
    """Fork for each request until the input ends."""
    for name in THIRD_PARTIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # forks need not traverse these objects
    for line in sys.stdin:
        start = cpu_seconds()
        process = os.fork()
        if process == 0:
            answer(json.loads(line))
        print(process, flush=True)
        os.waitpid(process, 0)
        print(f"{cpu_seconds() - start:.2f}", flush=True)


if __name__ == "__main__":
    serve()
