"""A pytest plugin: a table of the CPU seconds of every test, and a limit that each must keep.

A test's seconds are those of its process and of child processes that ended during it; wall time would tell how busy
the machine is. Not counted are fixtures wider than a function, which other tests use too, and first imports, which
any test may be the one to do; the table lists them apart. Tests marked `slow` or `nightly` may take longer. Tests
above the limit are listed, and one far above it fails the run.
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

LIMIT = 2.0  # seconds; of 12,000 tests, the 3 % that took more took half of the time of all
TABLE = ".pytest_cache/cpu-seconds.tsv"
UNLIMITED = ("slow", "nightly")
FAILING = 5  # times the limit; on a busy virtual machine the same test took up to 2.4 times as many CPU seconds again


@dataclass
class Spent:
    """CPU seconds of processes of pytest and of their children, by name."""

    tests: dict[str, float] = field(default_factory=dict)
    fixtures: dict[str, float] = field(default_factory=dict)  # wider than a function
    imports: dict[str, float] = field(default_factory=dict)
    unlimited: list[str] = field(default_factory=list)  # tests
    total: float = 0.0

    def add(self, other: Spent) -> None:
        """Add those of another process."""
        for mine, theirs in zip(self._kinds().values(), other._kinds().values(), strict=True):
            for name, seconds in theirs.items():
                count(mine, name, seconds)
        self.unlimited += other.unlimited
        self.total += other.total

    def above(self, limit: float) -> list[tuple[str, float]]:
        """Return the tests above a limit that must keep it, the longest first; 0 is no limit."""
        return [
            (name, number)
            for name, number in ordered(self.tests)
            if number > limit > 0 and name not in self.unlimited
        ]

    def table(self) -> str:
        """Return all as tab-separated lines of seconds, kind and name, the most of each kind first."""
        files: dict[str, float] = {}
        for name, seconds in self.tests.items():
            count(files, name.partition("::")[0], seconds)
        kinds = {"total": {"all processes": self.total}, "file": files, **self._kinds()}
        lines = [f"{number:.3f}\t{kind}\t{name}" for kind, them in kinds.items() for name, number in ordered(them)]
        return "\n".join(["seconds\tkind\tname", *lines, ""])

    def __str__(self) -> str:
        kinds = ", ".join(f"{sum(them.values()):.0f} in {kind}" for kind, them in self._kinds().items())
        return f"{self.total:.0f} CPU seconds, {kinds}; each in {TABLE}"

    def _kinds(self) -> dict[str, dict[str, float]]:
        return {"tests": self.tests, "shared fixtures": self.fixtures, "first imports": self.imports}


class Clock:
    """Counts CPU seconds for what is going on: a test, and within it a shared fixture or an import.

    A finder of modules, which finds what Python's own finds, and has the execution of a module counted.
    """

    def __init__(self) -> None:
        self.spent = Spent()
        self.apart = 0.0  # seconds, in all, within tests that are not theirs
        self.inside = False  # a shared fixture or an import; inner ones are parts of it

    @contextmanager
    def test(self, name: str) -> Iterator[None]:
        """Count what happens for a test."""
        begun = cpu_seconds() - self.apart
        yield
        count(self.spent.tests, name, cpu_seconds() - self.apart - begun)

    @contextmanager
    def other(self, kind: dict[str, float], name: str) -> Iterator[None]:
        """Count what happens apart from the test that is going on."""
        if self.inside:
            yield
            return
        self.inside, begun = True, cpu_seconds()
        try:
            yield
        finally:
            self.inside, seconds = False, cpu_seconds() - begun
            count(kind, name, seconds)
            self.apart += seconds

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return where a module is found, with a loader that counts; None if that is no Python file."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        execute = spec.loader.exec_module

        def counted(module: Any) -> None:
            with self.other(self.spent.imports, name.partition(".")[0]):
                execute(module)

        spec.loader.exec_module = counted  # type: ignore[method-assign]
        return spec


class Measuring:
    """The hooks, of a process that runs tests, and of one that has others run them (pytest-xdist)."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.spent = clock, clock.spent

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure a test, with its own fixtures."""
        if any(item.get_closest_marker(name) for name in UNLIMITED):
            self.spent.unlimited.append(item.nodeid)
        with self.clock.test(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Measure a fixture that several tests use."""
        if fixturedef.scope == "function":
            return (yield)
        with self.clock.other(self.spent.fixtures, f"{fixturedef.baseid}::{fixturedef.argname}"):
            return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what another process has measured; one that died has handed over nothing."""
        if text := getattr(node, "workeroutput", {}).get("cpu_seconds"):
            self.spent.add(Spent(**json.loads(text)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over what was measured, or write it, and fail a run with a test above the limit."""
        config = session.config
        counted = bool(self.spent.total)  # by workers, which are children of this process
        self.spent.total += time.process_time() if counted else cpu_seconds()
        if hasattr(config, "workeroutput"):
            config.workeroutput["cpu_seconds"] = json.dumps(asdict(self.spent))
            return
        if self.spent.tests:
            path = config.rootpath / TABLE
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.spent.table(), encoding="utf-8")
        if self.spent.above(FAILING * config.option.cpu_limit) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Print the sum, and the tests that took too long."""
        if self.spent.tests:
            terminalreporter.write_line(str(self.spent))
        limit = config.option.cpu_limit
        for name, seconds in self.spent.above(limit):
            terminalreporter.write_line(
                f"{name} took {seconds:.1f} CPU seconds; the limit is {limit:g}. Have it do less, or mark it `slow`. "
                f"Above {FAILING * limit:g} the run fails; another limit: --cpu-limit",
                red=seconds > FAILING * limit,
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for another limit."""
    meaning = f"CPU seconds that a test may take unless marked slow or nightly; 0 is no limit [default: {LIMIT:g}]"
    parser.addoption("--cpu-limit", type=float, default=LIMIT, help=meaning)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark later cases of tests that are marked `quick(number)`, `quick(number, slow)` or `slow(number)`."""
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
    """Begin to measure."""
    clock = Clock()
    sys.meta_path.insert(sys.meta_path.index(PathFinder), clock)
    config.pluginmanager.register(Measuring(clock), "measuring-cpu-seconds")


def count(seconds: dict[str, float], name: str, more: float) -> None:
    """Add seconds to those of a name."""
    seconds[name] = seconds.get(name, 0.0) + more


def ordered(seconds: dict[str, float]) -> list[tuple[str, float]]:
    """Return names and seconds, the most first."""
    return sorted(seconds.items(), key=lambda item: -item[1])
