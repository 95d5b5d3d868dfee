"""Mutation testing: sample mutants of the code from every folder, and count the mutants that the tests catch.

`python tools/mutants.py` continues the results for this code in docs/quality.jsonl, or starts new ones, and generates
docs/quality.md from them. It mutates a temporary clone, never the working tree.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
from mutations import Mutation, folder, sample, words_of

ROOT = Path(__file__).resolve().parent.parent
RECORDS, PAGE = ROOT / "docs" / "quality.jsonl", ROOT / "docs" / "quality.md"
COMMON = {*dir(list), *dir(dict), *dir(str), *dir(set)}  # method names too common to identify a function
SERVER = Path(__file__).with_name("mutant_tests.py")
LIBRARIES = ("block_bootstrap", "code_digests", "input_digests", "placed_settings", "plain_files", "process_watch")
PRODUCT = ("bench_core", "plugins/*/bench_*", *(f"plugins/*/{name}" for name in LIBRARIES))
TESTS = ("tests", "plugins/*/tests")
NOT_MUTATED = "plugins/authors/bench_authors/testing/mutants/"  # intentionally wrong
NO_LIMIT = 1e9
EXIT_CODES = (
    "0",
    "1",
    "5",
)  # exit codes of pytest: passed, failed (without a failed test: because of a plugin), no tests selected
HANG_SECONDS = 20  # wall-clock seconds without CPU time
LOOP_SECONDS = 8  # CPU seconds of a test, at least twice as many as without the mutant
UNREACHED = 9  # distance in imports of files that no test imports, such as commands
MIN_TRIED = 5  # minimum number of mutants for a share with an interval
MAX_CODE = 70  # characters of code in a table cell
FILES_AT_ONCE = (1, 4, 16)  # in the first, the second and each later process
COLLECTION = "collection"
CAUGHT, LOOPED, SURVIVED, UNTESTED = "caught", "timed out", "survived", "not tested"

Record = dict[str, Any]


def git(place: Path, *arguments: str, stdin: str | None = None) -> str:
    """Return the output of git."""
    result = subprocess.run(
        ["git", "-C", place, *arguments], input=stdin, text=True, check=True, stdout=subprocess.PIPE
    )
    return result.stdout


@dataclass
class RunResult:
    """The result of a test run: the number of passed tests, the failed tests, and the test running at the end."""

    seconds: float
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    running: str = ""
    running_seconds: float = 0.0  # CPU seconds of `running`
    stopped: str = ""  # "budget" or "hang"

    @property
    def broken(self) -> bool:
        """Return whether a test failed or crashed the process."""
        return bool(self.failed or (self.running and not self.stopped))


class Scratch:
    """A clone of a commit with its own environment, for changing files and running tests."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._server: subprocess.Popen[str] | None = None

    def make(self, commit: str, tests_of: str) -> None:
        """Clone a commit, with the tests of another commit, and create an environment with third-party packages."""
        git(ROOT, "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(self.place))
        git(self.place, "checkout", "--quiet", "--detach", tests_of)
        if tests_of != commit:
            git(self.place, "rm", "-rq", "--ignore-unmatch", *PRODUCT)
            names = git(self.place, "ls-tree", "-r", "--name-only", commit).splitlines()
            product = [name for name in names if any(fnmatch(name, f"{place}/*") for place in PRODUCT)]
            git(self.place, "checkout", commit, "--pathspec-from-file=-", stdin="\n".join(product))
            author = ("-c", "user.name=mutants", "-c", "user.email=mutants@localhost")
            git(
                self.place,
                *author,
                "commit",
                "--quiet",
                "--allow-empty",
                "--message",
                f"Code of {commit}, tests of {tests_of}",
            )
        files = git(self.place, "ls-files", *PRODUCT)  # hide mutants from code that reports local changes
        git(self.place, "update-index", "--assume-unchanged", "--stdin", stdin=files)
        self._make_environment()

    def _make_environment(self) -> None:
        current, venv_folder = Path(sys.prefix), self.place / ".venv"
        venv.create(venv_folder, symlinks=True)
        site = next(venv_folder.glob("lib/python*/site-packages"))
        projects = [self.place, *(path.parent for path in self.place.glob("plugins/*/pyproject.toml"))]
        paths = [*projects, current / site.relative_to(venv_folder)]
        (site / "scratch.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
        for script in (current / "bin").iterdir():
            text = script.read_bytes()
            if text.startswith(b"#!" + bytes(current)):
                (venv_folder / "bin" / script.name).write_bytes(text.replace(bytes(current), bytes(venv_folder), 1))
                (venv_folder / "bin" / script.name).chmod(0o755)

    def sources(self) -> dict[str, bytes]:
        """Return the product's files by path, except plugins that are not installed (their tests are skipped)."""
        tops = [top for pattern in PRODUCT for top in self.place.glob(pattern) if find_spec(top.name)]
        files = [path for top in tops for path in top.rglob("*.py")]
        named = {path.relative_to(self.place).as_posix(): path for path in files}
        return {name: path.read_bytes() for name, path in sorted(named.items()) if not name.startswith(NOT_MUTATED)}

    def run(
        self, files: Iterable[str], only: list[str] | None = None, excluded: Iterable[str] = (),
        words: Iterable[str] = (), budget: float = NO_LIMIT,
    ) -> RunResult:  # fmt: skip
        """Run the fast tests in files in a new process, for at most `budget` CPU seconds.

        Parametrized tests run a few cases, and all cases with one of `words` in their names.
        """
        work = self.place / ".mutants"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        request = {"files": list(files), "only": only, "excluded": sorted(excluded), "words": [*words]}
        server = self._test_server()
        assert server.stdin
        assert server.stdout
        print(json.dumps({**request, "folder": str(work)}), file=server.stdin, flush=True)
        stopped, used = _wait(int(server.stdout.readline()), budget)
        seconds = max(used, float(server.stdout.readline()))
        return _run_result(work, seconds, stopped)

    def _test_server(self) -> subprocess.Popen[str]:
        if self._server is None:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self._server = subprocess.Popen(
                [self.place / ".venv" / "bin" / "python", SERVER], cwd=self.place,
                env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        return self._server

    def close(self) -> None:
        """Kill the test server and its child processes."""
        if self._server:
            server = psutil.Process(self._server.pid)
            for process in [*server.children(recursive=True), server]:
                process.kill()
            self._server.wait()


def _wait(process: int, budget: float) -> tuple[str, float]:
    """Wait for a process; kill it and its children if they exceed a budget of CPU seconds, or hang.

    Returns the reason ("budget", "hang" or ""), and the CPU seconds at the last check.
    """
    active, before, pause = time.monotonic(), 0.0, 0.02
    while True:
        try:
            family = [psutil.Process(process)]
            if family[0].status() == psutil.STATUS_ZOMBIE:
                return "", before
            family += family[0].children(recursive=True)
            used = sum(family[0].cpu_times()[:4]) + sum(sum(member.cpu_times()[:2]) for member in family[1:])
            waiting = all(member.status() == psutil.STATUS_SLEEPING for member in family)
        except psutil.NoSuchProcess:
            if not psutil.pid_exists(process):
                return "", before
            continue
        if used != before or not waiting:
            active, before = time.monotonic(), used
        stopped = "budget" if used > budget else "hang" if time.monotonic() - active > HANG_SECONDS else ""
        if stopped:
            for member in reversed(family):
                member.kill()
            return stopped, used
        time.sleep(pause)
        pause = min(1.2 * pause, 0.5)


def _run_result(work: Path, seconds: float, stopped: str) -> RunResult:
    """Read the events and exit code of a test run."""
    result = RunResult(seconds, stopped=stopped)
    events = work / "events"
    start = 0.0
    for line in events.read_text("utf-8").splitlines() if events.is_file() else ():
        event, at, test = line.split(" ", 2)
        if event == "started":
            result.running, start = test, float(at)
        else:
            result.running = ""
            result.passed += event == "passed"
            result.failed += [test] if event == "failed" else []
    result.running_seconds = seconds - start if result.running else 0.0
    code = (work / "code").read_text("utf-8") if (work / "code").is_file() else ""
    if not result.broken and not stopped and code not in EXIT_CODES:
        result.failed.append(COLLECTION)
    return result


class Ranking:
    """Orders test files by how likely they are to detect a change of a product file, judging by names and imports."""

    def __init__(self, place: Path) -> None:
        products = {
            path.relative_to(place).as_posix(): path for pattern in PRODUCT for path in _python(place, pattern)
        }
        tests = {path.relative_to(place).as_posix(): path for pattern in TESTS for path in _python(place, pattern)}
        self.texts = {name: path.read_text("utf-8") for name, path in {**products, **tests}.items()}
        self.tests = sorted(name for name in tests if name.rpartition("/")[2].startswith("test_"))
        self.modules = {_module(name): name for name in self.texts}
        self.imports = {name: self._imports(name) for name in self.texts}

    def files(self, mutation: Mutation) -> list[str]:
        """Return all test files: first files named like the mutated file, then the others by import distance.

        Files that mention the mutated function or class, or share words with its name, rank higher.
        """
        distances = self._distances(mutation.path)
        stem = mutation.path.rpartition("/")[2].removesuffix(".py")
        names = {name for name in mutation.unit.split(".") if len(name) > 4 and name[0] != "<" and name not in COMMON}
        mentions = re.compile(r"\b(" + "|".join(names | {"(?!)"}) + r")\b")

        def rank(test: str) -> tuple[bool, float, bool, int]:
            text, name = self.texts[test], test.rpartition("/")[2]
            other = _distribution(test) != _distribution(mutation.path)
            same_name = re.search(rf"_{stem}(_|\.)", name) and not other
            nearer = 1.5 * bool(mentions.search(text)) + 1.5 * (not other) + len(words_of(name) & mutation.words)
            return not same_name, distances.get(test, UNREACHED) - nearer, other, len(text)

        return sorted(self.tests, key=rank)

    def _distances(self, path: str) -> dict[str, int]:
        """Return the number of imports between a file and each file that depends on it."""
        importers: dict[str, set[str]] = {name: set() for name in self.texts}
        for name, imported in self.imports.items():
            for neighbor in imported:
                importers[neighbor].add(name)
        distances, queue = {path: 0}, deque([path])
        while queue:
            name = queue.popleft()
            for neighbor in importers[name] - set(distances):
                distances[neighbor] = distances[name] + 1
                queue.append(neighbor)
        return distances

    def _imports(self, name: str) -> set[str]:
        """Return the files that a file imports, or that it names in a target such as "package.module:Name"."""
        modules: set[str] = set()
        for node in ast.walk(ast.parse(self.texts[name])):
            match node:
                case ast.Import():
                    modules |= {alias.name for alias in node.names}
                case ast.ImportFrom(module=str() as module, level=0):
                    modules |= {self._home(module, alias.name) for alias in node.names}
                case ast.Constant(value=str() as value) if re.fullmatch(r"[\w.]+:\w+", value):
                    modules.add(value.partition(":")[0])
        return {self.modules[module] for module in modules if module in self.modules} - {name}

    def _home(self, module: str, name: str) -> str:
        """Return the module that defines a name, following re-exports of packages."""
        if f"{module}.{name}" in self.modules:
            return f"{module}.{name}"
        for home, names in self._reexports(module):
            if name in names:
                return self._home(home, name)
        return module

    def _reexports(self, module: str) -> list[tuple[str, set[str]]]:
        name = self.modules.get(module, "")
        if not name.endswith("__init__.py"):
            return []
        nodes = [node for node in ast.walk(ast.parse(self.texts[name])) if isinstance(node, ast.ImportFrom)]
        return [(node.module, {alias.name for alias in node.names}) for node in nodes if node.module]


def _python(place: Path, pattern: str) -> list[Path]:
    return sorted(path for top in place.glob(pattern) for path in top.rglob("*.py"))


def _module(name: str) -> str:
    """Return the dotted module name of a file."""
    short = re.sub(r"^(plugins/[^/]+|tests/small|tests/calibration)/(?=\w)", "", name)
    return short.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _distribution(name: str) -> str:
    return "/".join(name.split("/")[:2]) if name.startswith("plugins/") else "core"


@dataclass
class Judge:
    """Decides whether tests catch a mutant, with a budget of CPU seconds per mutant; ignores `excluded` tests."""

    scratch: Scratch
    ranking: Ranking
    seconds: float
    excluded: set[str] = field(default_factory=set)
    _passing: set[str] = field(default_factory=lambda: {COLLECTION})
    _attempts: int = 0

    def verdict(self, mutation: Mutation) -> Record:
        """Return the verdict on a mutant, with the failed test, the number of passed tests, and CPU seconds."""
        while True:
            record = self._try_mutant(mutation)
            if record["verdict"] not in (CAUGHT, LOOPED) or self._passes_without_mutant(record):
                return record
            self.excluded.add(record["by"])

    def _passes_without_mutant(self, record: Record) -> bool:
        """Return whether the test that caught a mutant passes without it (in less than half the time, for a loop)."""
        test = record["by"]
        if test not in self._passing:
            budget = record["took"] / 2 if record["verdict"] == LOOPED else NO_LIMIT
            result = self.scratch.run([test.partition("::")[0]], only=[test], budget=budget)
            if result.broken or result.stopped:
                return False
            self._passing.add(test)
        return True

    def _try_mutant(self, mutation: Mutation) -> Record:
        path = self.scratch.place / mutation.path
        source, state = path.read_bytes(), path.stat()
        path.write_bytes(mutation.apply(source))
        self._attempts += 1  # Python identifies compiled files by time, so each version needs its own time
        os.utime(path, (state.st_mtime + 10 * self._attempts,) * 2)
        try:
            return self._search(mutation)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    def _search(self, mutation: Mutation) -> Record:
        files = [name for name in self.ranking.files(mutation) if name not in self.excluded]
        ran, left = 0, self.seconds
        for batch in _batches(files):
            result = self.scratch.run(batch, excluded=self.excluded, words=mutation.words, budget=left)
            left -= result.seconds
            ran += result.passed
            record = {"tests": ran, "seconds": round(self.seconds - left, 1)}
            if result.broken:
                return {"verdict": CAUGHT, "by": (result.failed or [result.running])[0], **record}
            if result.stopped == "hang" or (result.stopped and result.running_seconds > LOOP_SECONDS):
                return {
                    "verdict": LOOPED,
                    "by": result.running,
                    "took": round(max(result.running_seconds, LOOP_SECONDS), 1),
                    **record,
                }
            if result.stopped or left < 1:
                return {"verdict": SURVIVED, "by": "", **record}
        return {
            "verdict": SURVIVED if ran else UNTESTED,
            "by": "",
            "tests": ran,
            "seconds": round(self.seconds - left, 1),
        }


def _batches(files: list[str]) -> Iterator[list[str]]:
    """Divide test files among processes, few at first, because the first file catches most mutants."""
    sizes = [*FILES_AT_ONCE]
    while files:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        yield files[:size]
        files = files[size:]


@dataclass
class Results:
    """The settings of a measurement, and one record per tried mutant."""

    about: Record
    records: dict[str, Record] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read results; the last record of each mutant counts."""
        about, *records = map(json.loads, path.read_text("utf-8").splitlines())
        return cls(about, {record["key"]: record for record in records})

    @classmethod
    def resume(cls, path: Path, about: Record) -> Results:
        """Return the results in a file if they have the same code and settings, else start a new file."""
        if path.is_file():
            results = cls.read(path)
            if {**results.about, "commit": ""} == {**about, "commit": ""}:
                return results
        path.write_text(json.dumps(about) + "\n", encoding="utf-8")
        return cls(about)

    def add(self, record: Record, path: Path) -> None:
        """Add a record, and append it to the file."""
        self.records[record["key"]] = record
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _commit_id(name: str) -> str:
    return git(ROOT, "rev-parse", "--short=10", "--verify", f"{name}^{{commit}}").strip()


def code_digest(commit: str) -> str:
    """Return a digest of all files of a commit that affect the results."""
    listing = git(ROOT, "ls-tree", "-r", commit, "--", "bench_core", "plugins", "suites", "tests", "conftest.py")
    return hashlib.sha256(listing.encode()).hexdigest()[:12]


def interval(hits: int, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a proportion."""
    z, share = 1.959964, hits / count
    middle = share + z * z / (2 * count)
    width = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - width) / (1 + z * z / count), (middle + width) / (1 + z * z / count)


HEAD = """<!-- Written by `make mutants` from quality.jsonl. -->
# Mutation testing

A mutant is the code with a small change, such as a negated condition, a constant off by one, a removed statement or
two swapped arguments. `make mutants` samples {drawn} mutants, from each folder in proportion to its lines of code,
and runs fast tests until one fails: first those named like the changed file, then others by import distance, with
a few cases of each parametrized test, for at most {seconds:g} CPU seconds per mutant. Endless loops count as caught.
A surviving mutant indicates a missing test, a test not reached in time, or a change without effect. These cases are
not distinguished, so the share is a lower bound.

Of {drawn} mutants (seed {seed}), {tried} were tried on commit `{commit}` until {last}, in {minutes:.0f} CPU minutes.
**{caught} of {tried} were caught: {score}.** Intervals are 95 % Wilson intervals.
"""


def page(results: Results) -> str:
    """Return the text of docs/quality.md."""
    records = list(results.records.values())
    head = HEAD.format(
        **results.about, tried=len(records), last=max(record["date"] for record in records),
        caught=sum(map(_is_caught, records)), score=_score(records),
        minutes=sum(record["seconds"] for record in records) / 60,
    )  # fmt: skip
    missed = sorted((each for each in records if not _is_caught(each)), key=lambda each: (each["path"], each["line"]))
    return "\n".join(
        [
            head,
            *_shares("folder", records, lambda record: f"`{folder(record['path'])}`"),
            *_shares("change", records, lambda record: record["operator"]),
            "## Survivors\n",
            "| where | in | change | tests passed |\n|---|---|---|--:|",
            *map(_survivor, missed),
            "",
        ]
    )


def _is_caught(record: Record) -> bool:
    return record["verdict"] in (CAUGHT, LOOPED)


def _score(records: list[Record]) -> str:
    caught = sum(map(_is_caught, records))
    low, high = interval(caught, len(records))
    return f"{100 * caught / len(records):.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


def _shares(name: str, records: list[Record], kind: Callable[[Record], str]) -> Iterator[str]:
    """Yield a table of scores by folder or operator."""
    yield f"| {name} | tried | caught | share |\n|---|--:|--:|--:|"
    for value in sorted(set(map(kind, records))):
        some = [record for record in records if kind(record) == value]
        score = _score(some) if len(some) >= MIN_TRIED else "-"
        yield f"| {value} | {len(some)} | {sum(map(_is_caught, some))} | {score} |"
    yield ""


def _survivor(record: Record) -> str:
    place = f"{record['path']}:{record['line']}"
    change = (
        f"{_code(record['old'])} → {_code(record['new'])}" if record["new"] else f"{_code(record['old'])} removed"
    )
    return f"| `{place}` | `{record['unit']}` | {change} | {record['tests']} |"


def _code(text: str) -> str:
    """Return code for a table cell: on one line, truncated."""
    line = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return f"`{line if len(line) <= MAX_CODE else line[: MAX_CODE - 1] + '…'}`"


def measure(options: argparse.Namespace, place: Path) -> Results:
    """Try the mutants that have no results yet, in scratch clones below a folder."""
    commit, tests_of = (_commit_id(name) for name in (options.commit, options.tests_of or options.commit))
    about = {
        "commit": commit, "code": code_digest(commit), "tests": code_digest(tests_of),
        "seed": options.seed, "drawn": options.count, "seconds": options.seconds,
    }  # fmt: skip
    results = Results.resume(options.records, about)
    scratches = [Scratch(place / str(number)) for number in range(options.jobs)]
    for scratch in scratches:
        scratch.make(commit, tests_of)
    mutations = sample(scratches[0].sources(), options.count, options.seed)[: options.first]
    finished = {key for key, record in results.records.items() if _is_caught(record) or not options.again}
    todo = [mutation for mutation in mutations if mutation.key not in finished]
    ranking = Ranking(scratches[0].place)
    judges = [Judge(scratch, ranking, options.seconds) for scratch in scratches]
    try:
        _try(todo, judges, results, options.records)
    finally:
        for scratch in scratches:
            scratch.close()
    return results


def _try(mutations: list[Mutation], judges: list[Judge], results: Results, path: Path) -> None:
    """Try mutants, one per judge at a time."""
    idle = queue.SimpleQueue[Judge]()
    for judge in judges:
        idle.put(judge)

    def attempt(mutation: Mutation) -> None:
        judge = idle.get()
        try:
            record = {**asdict(mutation), "key": mutation.key, **judge.verdict(mutation)}
        finally:
            idle.put(judge)
        results.add({**record, "date": f"{datetime.now(UTC):%Y-%m-%d}"}, path)
        place = f"{mutation.path}:{mutation.line}"
        print(f"{len(results.records)}: {place}: {record['verdict']}", flush=True)

    with ThreadPoolExecutor(len(judges)) as pool:
        list(pool.map(attempt, mutations))


def main() -> None:
    """Measure, and generate the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="mutants in the sample")
    parser.add_argument("--first", type=int, help="try only the first N mutants, a balanced subset")
    parser.add_argument("--again", action="store_true", help="try surviving mutants again")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--seconds", type=float, default=15, help="CPU seconds for the tests of each mutant")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried in parallel")
    parser.add_argument("--commit", default="HEAD", help="commit whose code and tests are measured")
    parser.add_argument("--tests-of", help="another commit with the tests to measure")
    parser.add_argument("--records", type=Path, default=RECORDS, help="file of results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-mutants-") as place:
        results = measure(options, Path(place))
    if options.records == RECORDS:
        PAGE.write_text(page(results), encoding="utf-8")
    print(_score(list(results.records.values())))


if __name__ == "__main__":
    main()
