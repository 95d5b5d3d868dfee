"""After what a part reached is edited, no run shows the old number: it is computed again, or refused by name.

Each run of `bench` is a fork of this process that has loaded torch and the core, but nothing of the case: modules are
imported anew in each, as in a process of its own.
"""

from __future__ import annotations

import functools
import io
import json
import os
import pdb
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from socket import SHUT_RDWR, create_server
from typing import Any

import pytest
from reaching import (
    AFTER,
    BAD,
    BEFORE,
    CASES,
    CLEAN,
    EITHER,
    HARMLESS,
    NAMED,
    OBSERVED,
    UNOBSERVED,
    VARIABLES,
    Case,
    filled,
    metric,
)
from reaching_further import FURTHER, NOTHING

from bench_core import registry
from bench_core.execution.watching import install
from bench_core.runs.results import read_run
from bench_core.storage.store import Store
from bench_exchange.compared_with_store import unlike_store
from process_watch import Refused, observe
from process_watch.whose_code import SITES

#: Cases in which an old number stays, with the reason.
UNSEEN = {
    "METEOR's Java": "results do not depend on which Java runs, so that one which computes otherwise is not noticed",
    "a class attribute that another module sets": "what a module sets in others when it is imported, by a function",
    "a folder that a library looks for": "variables that a library reads are its own",
    "the annotations of a function": "a computed name of what reads annotations",
    "the option of a command": "variables that a library reads are its own",
}
PATIENCE = 300  # seconds after which a run that hangs is ended
PART = "mine|meteor"
NAMED_AS = "unobserved|not observed|cannot be observed"


@dataclass
class Seen:
    """What a run of the command left and printed."""

    code: int
    out: str
    err: str
    here: str  # a path whose own words count for nothing

    @functools.cached_property
    def about(self) -> dict[str, Any]:
        return json.loads(self.out) if self.out.startswith("{") else {}

    @property
    def numbers(self) -> list[float]:
        values = [number for one in self.about.get("cells", ()) for number in one["values"].values()]
        return [number for number in values if number is not None]

    @property
    def text(self) -> str:
        return f"{self.out}\n{self.err}".replace(self.here, "")

    def gives(self, number: float) -> bool:
        """Return whether every number is this one, and none is missing."""
        return self.code == 0 and bool(self.numbers) and all(one == pytest.approx(number) for one in self.numbers)

    def refuses(self, case: Case) -> bool:
        """Return whether there is no number, and a message names the part, and what it reached or the law it broke."""
        lines = [line for line in self.text.splitlines() if re.search(PART, line)]
        told = any(re.search(rf"{case.reached}|\[measured_again_it_is_the_same\]", line) for line in lines)
        return self.code != 0 and not self.numbers and told

    def warns(self, case: Case) -> bool:
        """Return whether the run and its report name the part and what it reached as unobserved."""
        report = Path(self.here, self.about.get("report", os.devnull)).read_text()
        return all(
            any(
                all(re.search(one, line, re.I) for one in (NAMED_AS, PART, case.reached))
                for line in text.splitlines()
            )
            for text in (self.err.replace(self.here, ""), report)
        )


@dataclass
class Machine:
    """A folder with a suite, a package and a store, and what answers from outside."""

    here: Path
    case: Case
    terminal: tuple[int, int]
    server: Any
    number: float = BEFORE

    def __post_init__(self) -> None:
        self.port = self.server.getsockname()[1]
        self.case.write(self.here, self.port)
        parts = self.here / "site/bench_mine/parts.py"
        text = parts.read_text()
        parts.write_text(text.replace("TERMINAL", os.ttyname(self.terminal[1])))
        if str(self.port) in text:
            threading.Thread(target=self._answer, daemon=True).start()
        if "reached.pipe" in text:
            os.mkfifo(self.here / "reached.pipe")
            threading.Thread(target=self._pipe, daemon=True).start()

    def run(self, *words: str, **rest: Any) -> Seen:
        """Run the suite by the command `bench run`."""
        return self.bench("run", "--workers", "0", "--out", str(self.here / "reports"), "--json", *words, **rest)

    def bench(
        self,
        command: str,
        *words: str,
        edited: bool = False,
        folder: str = ".",
        store: str = "store",
        environment: Any = None,
    ) -> Seen:
        """Call a command in a process of its own; its variables and input are those after the edit if `edited`."""
        self.number = AFTER if edited else BEFORE
        if "TERMINAL" in self.case.files["site/bench_mine/parts.py"]:
            os.write(self.terminal[0], f"{self.number}\n".encode())
        places = ["--store", str(self.here / store), "--runs", str(self.here / "runs"), "--data", str(self.here)]
        child = os.fork()
        if not child:
            code = 70
            try:
                signal.alarm(PATIENCE)
                (self.here / "stdin").write_text(self.case.stdin[edited])
                for number, (name, flags) in enumerate(
                    {"stdin": os.O_RDONLY, "stdout": FRESH, "stderr": FRESH}.items()
                ):
                    os.dup2(os.open(self.here / name, flags), number)
                sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
                self._become(edited, folder, environment)
                code = call([command, str(self.here / "suite.yaml"), *places, *words])
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out, err = ((self.here / name).read_text(errors="replace") for name in ("stdout", "stderr"))
        return Seen(code, out, err, str(self.here))

    def _become(self, edited: bool, folder: str, environment: Any) -> None:
        sys.dont_write_bytecode, tempfile.tempdir = True, None
        sys.path.insert(0, str(self.here / "site"))
        sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != "cpu_seconds"]  # of the tests
        os.chdir(self.here / folder)
        for name in [one for one in sys.modules if one.startswith(self.case.forgotten or "?")]:
            del sys.modules[name]
        set_variables(
            {**(self.case.after if edited else self.case.before), **(environment or {})}, self.here, self.port
        )

    def edit(self) -> None:
        """Edit what the part reached."""
        self.case.edit(self.here)

    def _answer(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                text = str(self.number)
                with connection, suppress(OSError):
                    connection.sendall(f"HTTP/1.0 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())

    def _pipe(self) -> None:
        while (self.here / "reached.pipe").exists():
            with suppress(OSError), open(self.here / "reached.pipe", "w") as pipe:
                pipe.write(f"{self.number}\n")


FRESH = os.O_RDWR | os.O_CREAT | os.O_TRUNC


def set_variables(values: Any, here: Path, port: int) -> None:
    """Set environment variables, or remove those that are None."""
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = filled(value, here, port).decode()


def call(words: list[str]) -> int:
    """Call the command line with the user's plugin; return its exit code."""
    from bench_core.commands.main import main

    import bench_mine.plugin  # isort: skip

    sys.argv = ["bench", *words]
    with registry.extra(bench_mine.plugin):
        try:
            main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Load what all runs load, and parse each source once for all of them."""
    from bench_core.commands.main import bench

    folder = tmp_path_factory.mktemp("prepared")
    (folder / "suite.yaml").write_text(EXACT.format(folder=folder))
    (folder / "a.txt").write_text("a\n")
    places = [word for name in ("store", "runs", "out") for word in (f"--{name}", str(folder / name))]
    words = ["run", str(folder / "suite.yaml"), *places, "--workers", "0", "--json", "-q"]
    assert bench.main(words, standalone_mode=False) == 0
    terminal = os.openpty()
    yield terminal
    for one in terminal:
        os.close(one)


EXACT = """
suite: prepared
tasks: {{one: {{name: references, references: ["{folder}/a.txt"]}}}}
models: {{system: {{name: recorded, outputs: "{folder}/a.txt"}}}}
decoders: {{recorded: {{name: as-recorded}}}}
metrics: {{exact: {{name: exact-match}}}}
hardware: {{threads: 1, device: cpu}}
"""


@pytest.fixture
def machine(prepared, tmp_path):
    """Return a function that prepares a case."""

    def prepare(case: Case) -> Machine:
        for one in case.needs:
            if not available(one):
                pytest.skip(f"needs {one}")
        return Machine(tmp_path, case, prepared, server)

    with create_server(("127.0.0.1", 0)) as server:
        yield prepare
        with suppress(OSError):
            server.shutdown(SHUT_RDWR)  # which ends the thread that answers
    (tmp_path / "reached.pipe").unlink(missing_ok=True)


def available(name: str) -> bool:
    """Return whether a module or a program is installed, or data of time zones."""
    if name == "zones":
        return Path("/usr/share/zoneinfo/Europe/Berlin").exists() or available("tzdata")
    try:
        return find_spec(name) is not None or shutil.which(name) is not None
    except ModuleNotFoundError:
        return False


def judge(machine: Machine) -> None:
    """Run a case, run it again, edit it and run it a third time."""
    case, (before, after) = machine.case, machine.case.answers
    first = machine.run()
    if case.expected != "observed" and first.refuses(case):
        return
    assert first.gives(before), first
    if case.steady:
        again = machine.run()
        assert again.gives(before), again
        assert again.about["computed"] == 0, "something is computed again without an edit"
    machine.edit()
    second = machine.run(edited=True)
    stale = second.gives(before) and before != after
    if case.expected == UNOBSERVED and first.warns(case) and second.warns(case):
        return
    assert not stale, f"a stale number, by {case.name}"
    assert second.gives(after) or (case.expected != "observed" and second.refuses(case)), second


def named(cases: list[Case], judged: bool = False, nightly: Callable[[Case], bool] = lambda case: False) -> Any:
    """Return a mark that tries cases by name; if they are `judged`, those that are `UNSEEN` fail."""
    marked = [
        pytest.param(
            one,
            id=one.name,
            marks=[
                *([pytest.mark.slow] if one.slow else []),
                *([pytest.mark.nightly] if nightly(one) else []),
                *([pytest.mark.xfail(reason=UNSEEN[one.name], strict=True)] if judged and one.name in UNSEEN else []),
            ],
        )
        for one in cases
    ]
    return pytest.mark.parametrize("case", marked)


def spread(cases: list[Case]) -> list[Case]:
    """Return cases in an order in which the first ones are of all kinds."""
    return [case for start in range(7) for case in cases[start::7]]


def is_seen(case: Case) -> bool:
    """Return whether `judge` requires the number after the edit, which the edit must then give."""
    return case.expected == OBSERVED


def of(name: str) -> Case:
    """Return a case by its name."""
    (found,) = [one for one in (*CASES, *VARIABLES, *BAD, *HARMLESS) if one.name == name]
    return found


@pytest.mark.quick(3, 4)
@named([one for one in CASES if one.name in NAMED], judged=True)
def test_idioms_that_escaped_static_keys_give_no_stale_number(case, machine):
    judge(machine(case))


@pytest.mark.quick(2, 10)
@named(spread([one for one in CASES if one.name not in NAMED]), judged=True)
def test_what_a_part_reached_in_an_ordinary_way_gives_no_stale_number(case, machine):
    judge(machine(case))


@pytest.mark.quick(2, 6)
@named(FURTHER, judged=True)
def test_what_is_absent_cached_or_read_in_compiled_code_gives_no_stale_number(case, machine):
    judge(machine(case))


@pytest.mark.quick(2, 4)
@named(spread(VARIABLES), judged=True)
def test_an_environment_variable_that_a_part_read_gives_no_stale_number(case, machine):
    judge(machine(case))


@pytest.mark.quick(1, 5)
@named(BAD, judged=True)
def test_what_cannot_be_looked_at_again_is_observed_or_refused_by_name(case, machine):
    judge(machine(case))


@pytest.mark.slow(3)
@named(spread([*CASES, *VARIABLES, *BAD]), nightly=is_seen)
def test_the_edit_of_a_case_gives_another_number_in_a_fresh_store(case, machine):
    there, (before, after) = machine(case), case.answers
    first = there.run()
    if case.expected == EITHER and first.refuses(case):
        return
    assert first.gives(before), first
    there.edit()
    fresh = there.run(edited=True, store="fresh")
    assert fresh.gives(after), fresh


@pytest.mark.quick(2, 4)
@named(spread(HARMLESS))
def test_what_makes_no_difference_is_not_computed_again(case, machine):
    there = machine(case)
    first = there.run()
    assert first.gives(BEFORE), first
    there.edit()
    second = there.run(edited=True)
    assert second.gives(BEFORE), second
    assert second.about["computed"] == 0


@pytest.mark.slow(4)
@named([*NOTHING, *spread([one for one in HARMLESS if one.name in CLEAN])])
def test_what_is_in_the_key_or_decides_nothing_passes_in_strict_runs(case, machine):
    first = machine(case).run("--strict")
    assert first.gives(BEFORE), first


@pytest.mark.quick(1, 4)
@named([of(name) for name in (
    "a relative path", "import_module under another name", "os.environ.get", "a file that overrides, if there is one",
    "pydoc.locate", "subprocess.run", "os.fork", "fopen of the C library", "a decoder's file",
    "a file that a loss is computed with",
)])  # fmt: skip
def test_what_is_in_no_key_is_an_error_by_name_in_strict_runs(case, machine):
    strict = machine(case).run("--strict")
    assert strict.refuses(case), strict


@pytest.mark.slow
@named([of(name) for name in ("a relative path", "subprocess.run")])
def test_runs_are_strict_by_default_in_continuous_integration(case, machine):
    strict = machine(case).run(environment={"CI": "true"})
    assert strict.refuses(case), strict


@pytest.mark.quick(1, 3)
@named([of(name) for name in (
    "a relative path", "os.environ.get", "import_module under another name", "a file that overrides, if there is one",
    "os.listdir", "a decoder's file", "a task's file when it is prepared",
)])  # fmt: skip
def test_why_and_a_dry_run_name_what_changed(case, machine):
    there = machine(case)
    there.run()
    there.edit()
    why = there.bench("why", edited=True)
    assert re.search(case.reached, why.out), why
    assert "is stored" not in why.out
    dry = there.run("--dry-run", edited=True)
    assert dry.about["stages"], dry


@pytest.mark.slow
@named([of(name) for name in ("a relative path", "import_module under another name", "os.environ.get")])
def test_only_the_stage_that_reached_what_changed_is_computed_again(case, machine):
    there = machine(case)
    there.run()
    there.edit()
    second = there.run(edited=True)
    assert second.gives(AFTER), second
    assert second.about["computed"] == 1


def test_a_file_that_is_gone_is_named_and_its_number_stands_again_when_it_is_back(machine):
    there = machine(of("a relative path"))
    assert there.run().gives(BEFORE)
    (there.here / "reached.txt").unlink()
    gone = there.run()
    assert gone.refuses(there.case), gone
    (there.here / "reached.txt").write_text(str(BEFORE))
    assert there.run().gives(BEFORE)


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", ["a relative path", "pydoc.locate", "a task's file when it is prepared"])
def test_an_edit_that_is_undone_gives_the_first_number_again(name, machine):
    there = machine(of(name))
    files = {one: (there.here / one).read_bytes() for one in there.case.files}
    assert there.run().gives(BEFORE)
    there.edit()
    assert there.run().gives(AFTER)
    for one, content in files.items():
        (there.here / one).write_bytes(content)
    assert there.run().gives(BEFORE)


def test_a_relative_path_from_another_working_directory_is_another_file(machine):
    there = machine(of("a relative path"))
    assert there.run().gives(BEFORE)
    (there.here / "elsewhere").mkdir()
    (there.here / "elsewhere/reached.txt").write_text(str(AFTER))
    other = there.run(folder="elsewhere")
    assert other.gives(AFTER), other
    assert there.run().gives(BEFORE)


@pytest.mark.slow
def test_a_relative_path_in_a_setting_is_digested_whatever_the_type_of_the_setting(machine):
    there = machine(of("a setting that is the text of a path"))
    assert there.run().gives(BEFORE)
    (there.here / "other.txt").write_text(str(BEFORE))
    suite = there.here / "suite.yaml"
    suite.write_text(suite.read_text().replace("reached.txt", "other.txt"))
    assert there.run().gives(BEFORE)
    (there.here / "other.txt").write_text(str(AFTER))
    assert there.run().gives(AFTER)


#: Cases that a worker observes as it does a file.
AS_A_FILE = ("import_module under another name", "a model's file once in a process")


@pytest.mark.slow(1)
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.nightly)])
@named([of(name) for name in (
    "a relative path", "import_module under another name", "os.environ.get", "subprocess.run",
    "a constant that a decoder shares with a metric", "a model's file once in a process", "a file once for two metrics",
)], nightly=lambda case: case.name in AS_A_FILE)  # fmt: skip
def test_workers_observe_what_the_process_of_the_command_does(case, workers, machine):
    there = machine(case)
    info = there.here / "site/bench_mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-mine\nVersion: 1\nRequires-Dist: bench-core\n")
    (info / "entry_points.txt").write_text("[bench]\nmine = bench_mine.plugin\n")

    def run(variables):
        places = [word for name in ("store", "runs", "out") for word in (f"--{name}", name)]
        words = ["run", "suite.yaml", *places, "--data", ".", "--workers", workers, "--json"]
        environment = {**os.environ, "PYTHONPATH": str(there.here / "site"), "OMP_NUM_THREADS": "1"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", **variables}
        done = subprocess.run(
            [sys.executable, "-m", "bench_core", *words], cwd=there.here, env=environment, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        return Seen(done.returncode, done.stdout, done.stderr, str(there.here))

    first = run(case.before)
    assert first.gives(BEFORE), first
    there.edit()
    second = run(case.after)
    if case.expected == UNOBSERVED:
        assert second.gives(AFTER) or (first.warns(case) and second.warns(case)), second
    else:
        assert second.gives(AFTER), second


def one_metric(code: str, files: Any, **rest: Any) -> Case:
    cases: list[Case] = []
    metric("one", code, files, to=cases, **rest)
    return cases[0]


def test_what_a_part_declares_of_a_child_is_observed_and_the_child_is_no_warning(machine):
    case = one_metric(
        """
        import subprocess

        from bench_core import reads


        def number():
            with reads("reached.txt"):
                return subprocess.run(["cat", "reached.txt"], capture_output=True, text=True).stdout
        """,
        {"reached.txt": "1.0"},
    )
    there = machine(case)
    first = there.run("--strict")
    assert first.gives(BEFORE), first
    assert "warning" not in first.err
    (there.here / "reached.txt").write_text("2.0")
    second = there.run("--strict", edited=True)
    assert second.gives(AFTER), second
    assert "unobserved" not in second.err


@named([of(name) for name in ("a relative path", "subprocess.run")])
def test_a_stored_result_that_no_key_covers_is_an_error_in_strict_runs(case, machine):
    there = machine(case)
    assert there.run().gives(BEFORE)
    strict = there.run("--strict")
    assert strict.refuses(case), strict
    assert strict.about["computed"] == 0
    assert there.run().gives(BEFORE)


@pytest.mark.parametrize("ask", ["sys.stdin.readline()", "input() + '\\n'"])
def test_a_debugger_reads_standard_input_and_a_part_does_not(ask, tmp_path, monkeypatch):
    def asked():
        for file, name in ((pdb.__file__, "pdb"), ("mine.py", "mine")):
            exec(compile(f"said.append({ask})", file, "exec"), {"__name__": name, "sys": sys, "said": said})

    said: list[str] = []
    install()
    monkeypatch.setattr(sys, "stdin", io.StringIO("step\n1.0\n"))
    with pytest.raises(Refused, match="standard input"):
        observe(asked, {}, str(tmp_path))
    assert said == ["step\n"]
    assert sys.stdin.read() == "1.0\n"


def test_a_file_that_a_part_moves_to_read_it_and_moves_back_is_observed(machine):
    case = one_metric(
        """
        import os


        def number():
            os.replace("reached.txt", "moved.txt")
            with open("moved.txt") as file:
                text = file.read()
            os.replace("moved.txt", "reached.txt")
            return text
        """,
        {"reached.txt": "1.0"},
    )
    there = machine(case)
    assert there.run().gives(BEFORE)
    (there.here / "reached.txt").write_text("2.0")
    second = there.run(edited=True)
    assert second.gives(AFTER), second


def test_a_file_that_a_child_has_written_is_no_input_where_a_part_moves_it(machine):
    case = one_metric(
        """
        import os
        import subprocess

        from bench_core import reads


        def number():
            with reads():
                subprocess.run(["sh", "-c", "sleep 0.05; echo 1.0 > written.txt"], check=True)
            os.replace("written.txt", "moved.txt")
            with open("moved.txt") as file:
                return file.read()
        """,
        {},
    )
    found = machine(case).run("--strict")
    assert found.gives(BEFORE), found


def test_a_file_that_a_part_finds_reads_and_writes_anew_is_refused(machine):
    case = one_metric(
        """
        from functools import cache
        from pathlib import Path


        @cache
        def number():
            known = Path("reached.txt")
            now = float(known.read_text()) if known.exists() else 0.0
            known.write_text(str(now + 1))
            return now
        """,
        {"reached.txt": "1.0"},
    )
    refused = machine(case).run()
    assert refused.refuses(case), refused
    assert "changed after a stage had read it" in refused.err


def test_an_error_whose_text_cannot_be_written_as_utf_8_is_the_reason_of_its_cell(machine):
    there = machine(one_metric('def number():\n    raise ValueError("no file \\udcff here")\n', {}))
    failed = there.run()
    assert failed.code == 1
    assert "Traceback" not in failed.err
    assert r"no file \udcff here" in failed.about["cells"][0]["reason"]


@pytest.mark.parametrize(("file", "told"), [(f"{SITES[0]}asking.py", False), ("asking.py", True)])
def test_a_child_is_a_part_s_own_unless_a_library_asks_python_which_machine_this_is(file, told, tmp_path):
    asking = compile("import platform\nplatform._Processor.from_subprocess()", file, "exec")
    found: dict[Any, Any] = {}
    install()
    observe(lambda: exec(asking, {"__name__": "asking"}), found, str(tmp_path))
    assert any(one.sort == "unobserved" for one in found) == told


def test_a_connection_ends_its_stage_at_once(machine):
    case = one_metric(
        """
        import socket
        from pathlib import Path


        def number():
            with socket.create_connection(("127.0.0.1", PORT)) as reached:
                Path("later").touch()
                return 1.0
        """,
        {},
    )
    there = machine(case)
    refused = there.run()
    assert refused.code == 1
    assert f"it read a connection to 127.0.0.1:{there.port} (in bench_mine.parts)" in refused.err
    assert not (there.here / "later").exists()


def test_a_run_is_not_contradicted_by_what_was_computed_again_from_other_inputs(machine):
    there = machine(of("a relative path"))
    assert there.run().gives(BEFORE)
    there.edit()
    assert there.run(edited=True).gives(AFTER)
    store, runs = Store(there.here / "store"), sorted((there.here / "runs").iterdir())
    assert len(runs) == 2
    older, newer = ([*unlike_store(read_run(one), store)] for one in runs)
    assert [one.text for one in [*older, *newer] if one.wrong] == []
    assert "not in" in older[-1].text
    assert not any("not in" in one.text for one in newer)


@pytest.mark.nightly
def test_a_hundred_thousand_files_are_observed_or_refused_by_name(machine):
    cases: list[Case] = []
    metric(
        "many files",
        """
        from pathlib import Path


        def number():
            return max(float(one.read_text()) for one in Path("reached").iterdir())
        """,
        {"reached/0": "1.0"},
        to=cases,
        expected=EITHER,
    )
    there = machine(cases[0])
    for number in range(1, 100_000):
        (there.here / f"reached/{number}").write_text("0.5")
    judge(there)


def test_the_names_of_the_cases_are_unique_and_there_are_as_many_as_promised():
    for cases in (CASES, FURTHER, NOTHING, VARIABLES, BAD, HARMLESS):
        assert len({one.name for one in cases}) == len(cases)
    assert len(NAMED) == 15
    assert not {*UNSEEN} & {*NAMED}
    assert len(UNSEEN) <= len([*CASES, *VARIABLES, *BAD]) / 25
    assert len(CASES) >= 15 + 80
    assert len(VARIABLES) >= 20
    assert len(HARMLESS) >= 15
    assert {*CLEAN} <= {one.name for one in HARMLESS}
