"""A pytest plugin that measures and limits the CPU seconds of each test.

The CPU time of a test includes child processes that end during it; wall-clock time would depend on the load of the
machine. Fixtures with a scope wider than a function and first imports of modules are not attributed to the test that
happens to trigger them; the table lists them separately. Tests marked `slow` or `nightly` have no limit. Other tests
above the limit are listed; a test far above it fails the run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any

import pytest

from bench_core.computing.clocks import cpu_seconds

LIMIT_SECONDS = 2.0  # the 3 % of 12,000 tests that exceeded the limit took half of the total time
TABLE = ".pytest_cache/cpu-seconds.tsv"
UNLIMITED = ("slow", "nightly")
FAILURE_FACTOR = 5  # times the limit; CPU seconds of a test vary by a factor of up to 2.4 on a busy virtual machine


@dataclass
class Usage:
    """CPU seconds of pytest processes and their children, by name."""

    tests: dict[str, float] = field(default_factory=dict)
    fixtures: dict[str, float] = field(default_factory=dict)  # fixtures with a scope wider than a function
    imports: dict[str, float] = field(default_factory=dict)
    unlimited: list[str] = field(default_factory=list)  # names of tests
    total: float = 0.0

    def add(self, other: Usage) -> None:
        """Add the usage of another process."""
        for mine, theirs in zip(self._kinds().values(), other._kinds().values(), strict=True):
            for name, seconds in theirs.items():
                count(mine, name, seconds)
        self.unlimited += other.unlimited
        self.total += other.total

    def above(self, limit: float) -> list[tuple[str, float]]:
        """Return the limited tests that exceed a limit, slowest first; 0 means no limit."""
        return [
            (name, number)
            for name, number in descending(self.tests)
            if number > limit > 0 and name not in self.unlimited
        ]

    def table(self) -> str:
        """Return tab-separated lines of seconds, kind and name, slowest first within each kind."""
        files: dict[str, float] = {}
        for name, seconds in self.tests.items():
            count(files, name.partition("::")[0], seconds)
        kinds = {"total": {"all processes": self.total}, "file": files, **self._kinds()}
        lines = [f"{number:.3f}\t{kind}\t{name}" for kind, part in kinds.items() for name, number in descending(part)]
        return "\n".join(["seconds\tkind\tname", *lines, ""])

    def __str__(self) -> str:
        kinds = ", ".join(f"{sum(part.values()):.0f} in {kind}" for kind, part in self._kinds().items())
        return f"{self.total:.0f} CPU seconds, {kinds}; details in {TABLE}"

    def _kinds(self) -> dict[str, dict[str, float]]:
        return {"tests": self.tests, "shared fixtures": self.fixtures, "first imports": self.imports}


class UsageClock:
    """Attributes CPU seconds to the current test, or to a shared fixture or import within it.

    It is also a module finder: it finds what `PathFinder` finds, and measures the execution of modules.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self.other_seconds = 0.0  # total of shared fixtures and imports
        self.inside = False  # whether a shared fixture or an import, including nested ones, is running

    @contextmanager
    def test(self, name: str) -> Iterator[None]:
        """Attribute the CPU time of a block to a test."""
        start = cpu_seconds() - self.other_seconds
        yield
        count(self.usage.tests, name, cpu_seconds() - self.other_seconds - start)

    @contextmanager
    def other(self, kind: dict[str, float], name: str) -> Iterator[None]:
        """Attribute the CPU time of a block to a shared fixture or an import instead of the current test."""
        if self.inside:
            yield
            return
        self.inside, start = True, cpu_seconds()
        try:
            yield
        finally:
            self.inside, seconds = False, cpu_seconds() - start
            count(kind, name, seconds)
            self.other_seconds += seconds

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a module with a measuring loader; None if it is not a Python source file."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        execute = spec.loader.exec_module

        def execute_and_count(module: Any) -> None:
            with self.other(self.usage.imports, name.partition(".")[0]):
                execute(module)

        spec.loader.exec_module = execute_and_count  # type: ignore[method-assign]
        return spec


class UsageHooks:
    """The pytest hooks, for processes that run tests and for the controller of pytest-xdist."""

    def __init__(self, clock: UsageClock) -> None:
        self.clock, self.usage = clock, clock.usage

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure a test with its function-scoped fixtures."""
        if any(item.get_closest_marker(name) for name in UNLIMITED):
            self.usage.unlimited.append(item.nodeid)
        with self.clock.test(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Measure a fixture that tests share."""
        if fixturedef.scope == "function":
            return (yield)
        with self.clock.other(self.usage.fixtures, f"{fixturedef.baseid}::{fixturedef.argname}"):
            return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the measurements of a worker; a crashed worker has no measurements."""
        if text := getattr(node, "workeroutput", {}).get("cpu_seconds"):
            self.usage.add(Usage(**json.loads(text)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the measurements to the controller or write the table, and fail if a test is far above the limit."""
        config = session.config
        has_workers = bool(self.usage.total)  # workers are children of this process and already counted
        self.usage.total += time.process_time() if has_workers else cpu_seconds()
        if hasattr(config, "workeroutput"):
            config.workeroutput["cpu_seconds"] = json.dumps(asdict(self.usage))
            return
        if self.usage.tests:
            path = config.rootpath / TABLE
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.usage.table(), encoding="utf-8")
        if self.usage.above(FAILURE_FACTOR * config.option.cpu_limit) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Print the totals, and the tests above the limit."""
        if self.usage.tests:
            terminalreporter.write_line(str(self.usage))
        limit = config.option.cpu_limit
        for name, seconds in self.usage.above(limit):
            terminalreporter.write_line(
                f"{name} took {seconds:.1f} CPU seconds; the limit is {limit:g}. Reduce its work, or mark it `slow`. "
                f"Above {FAILURE_FACTOR * limit:g} the run fails; --cpu-limit changes the limit.",
                red=seconds > FAILURE_FACTOR * limit,
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--cpu-limit`."""
    meaning = f"CPU seconds allowed for a test not marked slow or nightly; 0: no limit [default: {LIMIT_SECONDS:g}]"
    parser.addoption("--cpu-limit", type=float, default=LIMIT_SECONDS, help=meaning)


@pytest.hookimpl(tryfirst=True)  # before tests are selected by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark later cases of tests that have the markers `quick(number)`, `quick(number, slow)` or `slow(number)`."""
    seen: dict[str, int] = {}
    for item in items:
        if item.get_closest_marker("nightly"):
            continue
        quick, slow = item.get_closest_marker("quick"), item.get_closest_marker("slow")
        numbers = slow.args if slow else quick.args if quick else ()
        if not numbers:
            continue
        test = item.nodeid.partition("[")[0]
        seen[test] = place = seen.get(test, 0) + 1
        if place > sum(numbers) and (slow or len(numbers) > 1):
            item.add_marker("nightly")
        elif place > numbers[0]:
            item.add_marker("slow")


def pytest_configure(config: pytest.Config) -> None:
    """Start measuring."""
    clock = UsageClock()
    sys.meta_path.insert(sys.meta_path.index(PathFinder), clock)
    config.pluginmanager.register(UsageHooks(clock), "measuring-cpu-seconds")


def count(seconds: dict[str, float], name: str, more: float) -> None:
    """Add seconds to the total of a name."""
    seconds[name] = seconds.get(name, 0.0) + more


def descending(seconds: dict[str, float]) -> list[tuple[str, float]]:
    """Return pairs of name and seconds, slowest first."""
    return sorted(seconds.items(), key=lambda item: -item[1])
