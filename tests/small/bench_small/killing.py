"""Runs that are killed at some moment, what is left behind, and what comes of running them again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench_core.errors import BenchError
from bench_core.runs.results import read_run
from bench_core.storage.store import Store
from bench_upkeep.garbage import collect, damages

BENCH = Path(sys.executable).parent / "bench"
PATIENCE = 300.0  # seconds for whatever must happen
MOST_TURNS = 5  # runs that it may take to make up for a kill
STAGE = re.compile(r"^\[\d+/\d+\] (.*)$", re.MULTILINE)
UNFINISHED = re.compile(r"-(failed|incomplete)/")  # folders of reports

SUITES = {
    "sentences": """
suite: drills/sentences
tasks:
  sentences: {name: sequence-completion, corpus: {name: english, sentences: 150}, prefix: 2}
models:
  lstm: {name: rnn-lm, hidden: 8, layers: 1, dropout: 0.2}
  tanh: {name: rnn-lm, cell: tanh, hidden: 8, layers: 1}
decoders:
  greedy: {name: greedy}
  sampled: {name: ancestral}
metrics:
  non-termination: {name: non-termination}
  perplexity: {name: perplexity}
training: {updates: 600, evaluate_every: 100, batch_size: 4, select: {metric: perplexity}}
limits: {max_tokens: 12, examples: 8}
hardware: {device: cpu, threads: 1}
tables:
  - {id: main, rows: [decoder], columns: [model], values: [non-termination, perplexity]}
""",
    "stream": """
suite: drills/stream
tasks:
  stream: {name: language-modeling, corpus: {name: english, sentences: 150}, window: 5}
models:
  lstm: {name: rnn-lm, hidden: 8, layers: 1, dropout: 0.2}
  tanh: {name: rnn-lm, cell: tanh, hidden: 8, layers: 1}
metrics:
  perplexity: {name: perplexity}
training: {updates: 800, evaluate_every: 100, batch_size: 4, select: {metric: perplexity}}
hardware: {device: cpu, threads: 1}
tables:
  - {id: main, rows: [task], columns: [model], values: [perplexity]}
""",
}  #: of shuffled rows and samples; of windows with carried memory


class Wrong(Exception):
    """A run did not end as it must."""


@dataclass(frozen=True)
class Kill:
    """What was killed, when, and what was under way."""

    victim: str  # run, worker, or nothing if it was over by then
    seconds: float
    during: str

    def __str__(self) -> str:
        return f"{self.victim} killed after {self.seconds:.2f} s ({self.during})"


@dataclass
class Place:
    """A folder in which a suite is run, again and again on the same store."""

    folder: Path
    suite: str
    workers: int = 1

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "suite.yaml").write_text(self.suite)
        self.store = Store(self.folder / "store")

    def undisturbed(self) -> tuple[dict[str, bytes], float]:
        """Run the suite; return its report and the seconds that it took."""
        begun = time.monotonic()
        if code := self._end(self._start()):
            raise Wrong(f"undisturbed, it ended with {code}: {self._said()}")
        return self.report(), time.monotonic() - begun

    def kill(self, seconds: float, victim: str, random: Random) -> Kill:
        """Run the suite, and kill the run or one of its workers after so long; a run without one goes on."""
        process, begun = self._start(), time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        over = process.poll() is not None
        if victim == "worker":
            over = not self._kill_worker(process, random)
        process.kill() if victim == "run" else None
        found = Kill("nothing" if over else victim, time.monotonic() - begun, self._under_way())
        code = self._end(process)
        if code not in ((0,) if over else (-9, 0) if victim == "run" else (0, 1)):
            raise Wrong(f"{found}: it ended with {code}: {self._said()}")
        return found

    def finish(self) -> tuple[dict[str, bytes], int]:
        """Run the suite until it is well; return its report, and how many runs that took."""
        for turn in range(1, MOST_TURNS + 1):
            if not self._end(self._start()):
                return self.report(), turn
        raise Wrong(f"{MOST_TURNS} runs did not make up for it: {self._said()}")

    def report(self) -> dict[str, bytes]:
        """Return what whole runs reported, less what they cost."""
        files = [
            path
            for path in (self.folder / "reports").rglob("*")
            if path.is_file() and path.stem not in ("costs", "manifest")
        ]
        found = {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in sorted(files)}
        return {name: content for name, content in found.items() if not UNFINISHED.search(name)}

    def leftovers(self) -> list[str]:
        """Return what should not be there after all is done, once `gc` has removed what killed writers left."""
        deadline = time.monotonic() + PATIENCE
        while (alive := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        found = [f"process {number} is still at work" for number in alive]
        try:
            runs = [read_run(path) for path in sorted((self.folder / "runs").glob("[!.]*"))]
            found += collect(self.store, {key for run in runs for key in run.named_keys()}).left
        except BenchError as error:
            found.append(str(error))
        found += [str(problem) for _, wrong, _ in damages(self.store) for problem in wrong]
        for place in ("unfinished", "set-aside", "checkpoint", "locks"):
            inside = sorted(path.name for path in (self.store.root / place).glob("*"))
            found += [f"{place} holds {name}" for name in inside if name != "gate.lock"]
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        command = [BENCH, "run", "suite.yaml", "--workers", str(self.workers), "--checkpoint-every", "0.1s"]
        with self._words().open("wb") as words:
            return subprocess.Popen(
                [*command, "--store", str(self.store.root)],
                cwd=self.folder,
                stdout=words,
                stderr=words,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Wrong(f"it did not end within {PATIENCE:.0f} s: {self._said()}") from None
        if "Traceback" in self._words().read_text():
            raise Wrong(f"it showed a traceback: {self._said()}")
        return code

    def _kill_worker(self, process: subprocess.Popen[bytes], random: Random) -> bool:
        """Kill one of the workers, the first if there is none yet; return False if the run ended before that."""
        while process.poll() is None:
            workers = [one for one in self._processes() if one != process.pid]
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(random.choice(workers), 9)
                return True
            time.sleep(0.01)
        return False

    def _processes(self) -> list[int]:
        """Return the workers of this store."""
        import psutil

        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                if "bench_core.execution.worker" in words and str(self.store.root) in words:
                    found.append(process.pid)
        return found

    def _under_way(self) -> str:
        stages = STAGE.findall(self._words().read_text())
        halves = sorted({path.name.partition("-")[0] for path in (self.store.root / "unfinished").glob("*")})
        return f"{stages[-1] if stages else 'start'}{', half-written: ' if halves else ''}{' '.join(halves)}"

    def _words(self) -> Path:
        return self.folder / "said"

    def _said(self) -> str:
        return self._words().read_text()[-4000:]


def differences(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """Return the names of the files that two reports do not share."""
    return sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
