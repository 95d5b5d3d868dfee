"""A folder to do damage in: a suite, two plugins that bring its parts, and the runs of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from shutil import copytree
from typing import NamedTuple

from bench_core.runs.results import Run, read_run
from bench_core.storage.store import Store

PATIENCE = 300.0  # seconds for whatever must happen
PAUSE = 0.01
SUITE_NAME = "drill"
PLUGIN, HELPED = "bench-drill", "bench-drill-helped"  #: distributions, the second with a helper to be edited

SUITE = """
suite: drill
tasks: {words: {name: drill-words}}
models: {helped: {name: drill-helped, hidden: 256}, plain: {name: drill-plain}}
decoders: {greedy: {name: drill-greedy}, drawn: {name: drill-drawn}}
metrics: {match: {name: drill-match}, fit: {name: drill-fit}}
training: {epochs: 20, lr: 1e-2, batch_size: 2}
limits: {max_tokens: 8}
hardware: {device: cpu, threads: 1}
tables:
  - {id: main, rows: [decoder], columns: [model], values: [match, fit]}
"""

PARTS = '''
"""The parts of the drill's suite; their classes are the toys of bench_authors.testing."""

from bench_core import (
    DecoderConfig, Kind, MetricConfig, ModelConfig, Sampler, Scorer, Stepper, TaskConfig, hookimpl
)

TOYS = "bench_authors.testing"


class WordsConfig(TaskConfig):
    """Spell words."""

    name, target = "drill-words", f"{TOYS}.toy_parts:Letters"
    words: tuple[str, ...] = ("abba", "cab", "dad", "a", "bad", "cabbd", "add", "bb", "dabc", "acdc", "cc", "db")


class PlainConfig(ModelConfig):
    """A recurrent network."""

    name, target = "drill-plain", f"{TOYS}.toy_models:Recurrent"
    capabilities, likelihoods = {Stepper, Scorer}, {"exact": Kind.EXACT}
    hidden: int = 6


class GreedyConfig(DecoderConfig):
    """The most probable letter."""

    name, target, needs = "drill-greedy", f"{TOYS}.toy_parts:Greedy", Stepper


class DrawnConfig(DecoderConfig):
    """A letter drawn by the model."""

    name, target, needs = "drill-drawn", f"{TOYS}.toy_parts:Ancestral", Sampler


class MatchConfig(MetricConfig):
    """The share of words that are spelt right."""

    name, target = "drill-match", f"{TOYS}.toy_parts:ExactMatch"


class FitConfig(MetricConfig):
    """Perplexity."""

    name, target, needs = "drill-fit", f"{TOYS}.toy_parts:Perplexity", Scorer
    by: str | None = None


@hookimpl
def bench_tasks():
    return [WordsConfig]


@hookimpl
def bench_models():
    return [PlainConfig]


@hookimpl
def bench_decoders():
    return [GreedyConfig, DrawnConfig]


@hookimpl
def bench_metrics():
    return [MatchConfig, FitConfig]
'''

MODEL = '''
"""A model that uses a helper."""

from bench_core import Loss, ModelConfig, hookimpl, Kind, Scorer, Stepper


class HelpedConfig(ModelConfig):
    """A recurrent network, with help."""

    name, target = "drill-helped", "bench_drill_helped.model:Helped"
    capabilities, likelihoods = {Stepper, Scorer}, {"exact": Kind.EXACT}
    hidden: int = 6


@hookimpl
def bench_models():
    return [HelpedConfig]
'''

HELPED_MODEL = '''
"""Its class."""

from bench_core import Loss
from bench_authors.testing.toy_models import Recurrent
from bench_drill_helped.helper import begin, scale


class Helped(Recurrent):
    def setup(self, facts, noise):
        begin()

    def loss(self, batch, training):
        found = super().loss(batch, training)
        return Loss(scale() * found.value, found.weight, memory=found.memory)
'''

HELPER = '''
"""What is edited."""

import time
from pathlib import Path

HERE = Path(__file__).parent.parent


def scale():
    return 1.0  # as said


def begin():
    """Note that a training begins, which is held up for a while if that is asked for."""
    with (HERE / "trainings").open("a") as notes:
        notes.write("one more\\n")
    end = time.monotonic() + 300
    while (HERE / "hold").exists() and time.monotonic() < end:
        time.sleep(0.01)
'''


def _distribution(name: str, **modules: str) -> dict[str, str]:
    """Return the files of an installed distribution of one package."""
    package = name.replace("-", "_")
    about = f"{package}-0.dist-info"
    return {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\nRequires-Dist: bench-core\n",
        f"{about}/entry_points.txt": f"[bench]\n{name} = {package}.plugin\n",
        f"{package}/__init__.py": "",
        **{f"{package}/{module}.py": text.lstrip() for module, text in modules.items()},
    }


FILES = _distribution(PLUGIN, plugin=PARTS) | _distribution(
    HELPED, plugin=MODEL, model=HELPED_MODEL, helper=HELPER
)  #: what is installed for the drill, and for nobody else


class Missed(Exception):
    """Something was not caught, or not as it should be; its text says what."""


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    text: str

    def expect(self, code: int, *words: str) -> Said:
        """Return it; raise Missed unless it ended with that code and said so, without a traceback."""
        if self.code != code:
            raise Missed(f"a command ended with {self.code}, not {code}: {self.last}")
        if "Traceback" in self.text:
            raise Missed(f"a command showed a traceback: {self.last}")
        for word in words:
            if word not in self.text:
                raise Missed(f"it was not said: {word}. The last words were: {self.last}")
        return self

    @property
    def last(self) -> str:
        """Return its last words."""
        return " | ".join(self.text.splitlines()[-3:]) or "nothing was said"


@dataclass
class Place:
    """A folder in which the suite is run; several may share a store."""

    folder: Path
    suite: Path
    root: Path  # of the store
    packages: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def store(self) -> Store:
        """Return its store, as it is found now."""
        return Store(self.root)

    def bench(self, *words: str | Path, before: str = "") -> Said:
        """Let a command about the store run to its end; `before` is code to begin with."""
        with self.started(*words, before=before) as process:
            return self.ended(process)

    def run(self, *words: str, before: str = "") -> Said:
        """Run the suite."""
        return self.bench("run", self.suite, *words, before=before)

    @contextmanager
    def started(self, *words: str | Path, before: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """Start a command; after the block it is no more."""
        command = [sys.executable, "-c", f"{before}\nfrom bench_core.commands.main import main\nmain()"]
        path = filter(None, (str(self.packages), os.environ.get("PYTHONPATH")))
        environment = {"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
        with self._said.open("wb") as said:
            process = subprocess.Popen(
                [*command, *words, "--store", self.root, "--data", self.folder],
                cwd=self.folder, stdout=said, stderr=said, env={**os.environ, **environment},
            )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()  # its workers end with it
            process.wait()

    def ended(self, process: subprocess.Popen[bytes]) -> Said:
        """Wait for a command to end."""
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Missed(f"a command did not end within {PATIENCE:.0f} s: {Said(-1, self.said).last}") from None
        return Said(code, self.said)

    @property
    def said(self) -> str:
        """Return what the last command has said so far."""
        return self._said.read_text(errors="replace", encoding="utf-8")

    @property
    def _said(self) -> Path:
        return self.folder / "said"

    @property
    def last_run(self) -> Run:
        """Return the last run."""
        return read_run(max((self.folder / "runs").glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns))

    @property
    def report(self) -> dict[str, bytes]:
        """Return what the last whole run reported, less what it cost."""
        folder = self.folder / "reports" / SUITE_NAME
        files = [path for path in folder.rglob("*") if path.is_file() and path.stem not in ("costs", "manifest")]
        return {f"{SUITE_NAME}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files}


@dataclass
class Scratch:
    """The folder, in which every drill has places of its own."""

    folder: Path

    def __post_init__(self) -> None:
        self.packages, self.suite = self.folder / "packages", self.folder / "suite.yaml"
        self.suite.write_text(SUITE, encoding="utf-8")
        for name, text in FILES.items():
            path = self.packages / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.helper = self.packages / HELPED.replace("-", "_") / "helper.py"
        self.hold, self.trainings = self.packages / "hold", self.packages / "trainings"

    def place(self, name: str, root: Path | None = None) -> Place:
        """Return a new place, with a store of its own or that of another."""
        folder = self.folder / f"{name}-{token_hex(4)}"
        return Place(folder, self.suite, root or folder / "store", self.packages)

    def copied(self, name: str) -> Place:
        """Return a new place with all that an undisturbed run stored."""
        place = self.place(name)
        copytree(self.undisturbed.root, place.root)
        return place

    @cached_property
    def undisturbed(self) -> Place:
        """The place of an undisturbed run."""
        place = self.place("undisturbed")
        place.run().expect(0)
        return place

    def compare(self, place: Place) -> None:
        """Raise Missed unless the last run of a place reported what an undisturbed run does."""
        found, wanted = place.report, self.undisturbed.report
        differing = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        if differing:
            raise Missed(f"results differ from those of an undisturbed run: {', '.join(differing)}")


def wait_for(happened: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait until something has happened, for so long at most; return whether it has."""
    deadline = time.monotonic() + seconds
    while not (done := happened()) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return done
