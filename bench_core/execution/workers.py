"""Worker processes: stages of one run side by side, each apart from the others' crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Any

from bench_core.execution.executor import Executor, Order, StageFailed, Tell, check_answer

PATIENCE = 10.0  # seconds that a worker has to clean up
LAST_WORDS = 4000  # characters of what a dead worker wrote


@dataclass
class Worker:
    """One process, started when it is first needed, and again after it died."""

    number: int
    store: Path
    data: Path
    process: subprocess.Popen[str] | None = None
    words: IO[bytes] | None = None  # what it writes besides its answers
    held: frozenset[str] = frozenset()  # keys of the artifacts that it read last

    def do(self, order: Order, tell: Tell, warn: Callable[[str], None]) -> None:
        """Have a stage performed; raise StageFailed, also where the process dies."""
        if self.process is not None and self.process.poll() is not None:
            self.process = None  # it died when it had nothing to do
        process = self.process = self.process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        self.held = frozenset(key for _, key in order.stage.inputs.values())
        with suppress(OSError):  # it is dead, as the lack of an answer will tell
            process.stdin.write(json.dumps(order.to_json()) + "\n")
            process.stdin.flush()
        for answer in _answers(process.stdout):
            if "tell" in answer:
                tell(*answer["tell"])
            elif "warn" in answer:
                warn(answer["warn"])
            else:
                return check_answer(answer)
        raise self._death(process)

    def stop(self) -> None:
        """End the process, whatever it is doing; it has a while to clean up."""
        process, self.process = self.process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _started(self) -> subprocess.Popen[str]:
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        command = [sys.executable, "-m", "bench_core.execution.worker", str(self.store), str(self.data)]
        pipe, environment = subprocess.PIPE, {**os.environ, **_one_gpu(self.number)}
        # A session of its own: an interrupt is for the run, which then ends its workers.
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self.words, env=environment, text=True, start_new_session=True
        )

    def _death(self, process: subprocess.Popen[str]) -> StageFailed:
        self.process, code = None, process.wait()
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with code {code}"
        hint = " The machine may be out of memory." if code == -signal.SIGKILL else ""
        assert self.words is not None
        self.words.seek(0)
        words = self.words.read().decode(errors="replace")[-LAST_WORDS:]
        return StageFailed(f"the worker process {how}.{hint} Run the suite again to go on.", words)


@dataclass
class Workers(Executor):
    """So many worker processes, those that hold what a stage reads preferred."""

    capacity: int
    store: Path
    data: Path
    idle: list[Worker] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    local = True

    def __post_init__(self) -> None:
        self.all = [Worker(number, self.store, self.data) for number in range(self.capacity)]
        self.idle = [*self.all]
        self.threads = ThreadPoolExecutor(self.capacity)

    def submit(self, order: Order, tell: Tell) -> Future[None]:
        reads = {key for _, key in order.stage.inputs.values()}
        with self.lock:
            worker = max(self.idle, key=lambda one: (len(reads & one.held), one.process is not None, -one.number))
            self.idle.remove(worker)
        return self.threads.submit(self._work, worker, order, tell)

    def _work(self, worker: Worker, order: Order, tell: Tell) -> None:
        try:
            worker.do(order, tell, self.warn)
        finally:
            with self.lock:
                self.idle.append(worker)

    def close(self) -> None:
        for worker in self.all:
            worker.stop()
        self.threads.shutdown()


def _answers(lines: IO[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if not line.endswith("\n"):
            return  # it died while it wrote
        yield json.loads(line)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _one_gpu(number: int) -> dict[str, str]:
    """Return the setting that leaves a worker one of the GPUs, in turn; none where there are not several."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        names = [str(place) for place in range(len(list(Path("/dev").glob("nvidia[0-9]*"))))]
    else:
        names = [name for name in allowed.split(",") if name]
    return {"CUDA_VISIBLE_DEVICES": names[number % len(names)]} if len(names) > 1 else {}
