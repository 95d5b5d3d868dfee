"""A pool of worker processes, isolated from each other's crashes."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import IO, Any

from bench_core.execution.executor import Executor, Tell, check_answer
from bench_core.execution.failures import StageFailed
from bench_core.execution.gpus import GPU, GPUs, gpus_here
from bench_core.execution.worker import MUTE, Channel, Garbled
from bench_core.observer import Hear, event_from_json, silent
from bench_core.planning.stages import Stage, StageRequest

CLEANUP_SECONDS = 10.0  # seconds for a worker to clean up
PAUSE = 0.5  # seconds between two checks of a worker
MAX_ELAPSED = 5.0  # seconds counted between two checks; any excess means that this process was suspended
SILENCE = 60.0  # seconds without a heartbeat before a warning
SUSPENSION = 3600.0  # seconds before a suspended worker is considered lost
LAST_WORDS = 4000  # maximum number of characters quoted from the output of a dead worker
REMEDY = "Run the suite again to continue."


@dataclass
class Worker:
    """A worker process, started on first use and restarted after it dies."""

    number: int
    store: Path
    data: Path
    isolate: bool = False  # use a separate process for each stage
    timeout: float | None = None  # maximum seconds per stage
    suspension: float = field(default_factory=lambda: SUSPENSION)  # maximum seconds of suspension
    module: str = "bench_core.execution.worker"  # module run by the process
    option: str = "--stage-timeout"  # name of the timeout option, for messages
    again: str = REMEDY  # advice in messages about a lost worker
    gpu: str | None = None  # the process's CUDA_VISIBLE_DEVICES; by default inherited
    process: subprocess.Popen[bytes] | None = None
    channel: Channel | None = None
    words: IO[bytes] | None = None  # output of the process other than its answers
    held: frozenset[str] = frozenset()  # keys of the input artifacts of its last stage

    def do(self, request: StageRequest, tell: Tell, warn: Callable[[str], None], hear: Hear = silent) -> None:
        """Perform a stage; raise StageFailed if it fails or the process dies."""
        self.held = frozenset(key for _, key in request.stage.inputs.values())
        for answer in self.ask(request.to_json(), warn):
            if "tell" in answer:
                tell(*answer["tell"])
            elif "hear" in answer:
                hear(event_from_json(answer["hear"]))
            elif "warn" in answer:
                warn(answer["warn"])
            check_answer(answer)

    def ask(self, request: Mapping[str, Any], warn: Callable[[str], None] = lambda text: None) -> Iterator[Any]:
        """Send a request and yield all answers; raise StageFailed if the process dies."""
        process, channel = self._ready()
        token = token_hex(8)
        with suppress(OSError):  # a dead process is detected below by the missing answer
            channel.send(token, request)
        try:
            for answer in self._answers(process, channel, token, warn):
                last = "done" in answer or "failed" in answer
                if last and (answer.get("spoilt") or self.isolate):
                    self.kill()
                yield answer
                if last:
                    return
        except Garbled as error:
            raise self._lost(f"the worker process sent unexpected data instead of an answer ({error}).") from None
        finally:
            if self.isolate:
                self.kill()

    def see(self, gpu: str) -> None:
        """Make only this GPU visible to the process, which restarts if it uses another GPU."""
        if gpu != self.gpu:
            self.kill()
            self.gpu = gpu

    def _gpus(self) -> dict[str, str]:
        """Return environment variables that name the GPU of the process, and all GPUs for distributed training."""
        if self.gpu is None:
            return {}
        return {"CUDA_VISIBLE_DEVICES": self.gpu, "BENCH_GPUS": ",".join(gpu.name for gpu in gpus_here())}

    def stop(self) -> None:
        """Terminate the process, leaving it some time to clean up."""
        if (process := self.process) is not None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(CLEANUP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill the process and all its children."""
        process, self.process, self.held = self.process, None, frozenset()
        if process is not None:
            with suppress(ProcessLookupError, PermissionError):  # it has ended; macOS raises PermissionError then
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.channel is not None:
            self.channel.close()

    def _ready(self) -> tuple[subprocess.Popen[bytes], Channel]:
        """Return a process ready for a request: the current one, unless it died or wrote unexpected data."""
        if self.process and self.channel and self.process.poll() is None and self.channel.is_silent():
            return self.process, self.channel
        self.kill()
        if self.words is not None:
            self.words.close()
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", self.module, str(self.store), str(self.data)]
        with theirs:
            try:
                # A separate session, so that an interrupt only reaches the run, which then stops its workers.
                self.process = subprocess.Popen(
                    [*command, str(theirs.fileno())], pass_fds=[theirs.fileno()], start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=self.words, stderr=self.words,
                    env={**os.environ, "PYTHONHASHSEED": "0", **self._gpus()},
                )  # fmt: skip
            except OSError as error:
                ours.close()
                text = f"cannot start a worker process: {error}. {self.again}".strip()
                raise StageFailed(text, expected=True) from None
        self.channel = Channel(ours)
        return self.process, self.channel

    def _answers(
        self, process: subprocess.Popen[bytes], channel: Channel, token: str, warn: Callable[[str], None]
    ) -> Iterator[dict[str, Any]]:
        """Yield the messages of a request; raise StageFailed if the worker dies or exceeds the timeout.

        Time during which the worker or this process is suspended (for example, if the machine sleeps) does not count.
        """
        last, begun, warned = time.monotonic(), False, set[str]()
        spent = silence = suspension = 0.0  # seconds
        while True:
            ended = process.poll() is not None  # checked before its last messages are read
            answers = channel.receive(token, 0.0 if ended else PAUSE)
            now = time.monotonic()
            passed, last = min(now - last, MAX_ELAPSED), now
            yield from answers
            if answers:
                silence = suspension = 0.0
            elif ended or channel.closed:
                raise self._death(process)
            elif _is_stopped(process):
                suspension += passed
            else:
                silence += passed
            spent += passed if begun and not suspension else 0.0
            if any(answer.get("begun") for answer in answers):
                begun, spent = True, 0.0
            if self.timeout is not None and spent >= self.timeout:
                self.stop()
                raise StageFailed(f"it took longer than {self.timeout:g} s ({self.option}).", expected=True)
            if suspension >= self.suspension:
                raise self._lost(f"the worker process was suspended for {self.suspension:g} s. {self.again}".strip())
            text = _warning(process.pid, suspension > 0)
            if silence + suspension >= SILENCE and text not in warned:
                warned.add(text)
                warn(text)

    def _lost(self, text: str) -> StageFailed:
        """Kill a lost process and return the failure of its stage."""
        self.kill()
        assert self.words is not None
        self.words.seek(0)
        return StageFailed(text, self.words.read().decode(errors="replace")[-LAST_WORDS:])

    def _death(self, process: subprocess.Popen[bytes]) -> StageFailed:
        """Return the failure due to the end of a process; kill the process if it only closed its socket."""
        try:
            code = process.wait(CLEANUP_SECONDS)
        except subprocess.TimeoutExpired:
            code = MUTE
        hint = " The machine may be out of memory." if code == -signal.SIGKILL else ""
        how = f"was killed by {_signal(-code)}.{hint}" if code < 0 else f"ended with code {code}."
        if code == MUTE:
            how = "could not answer: a part closed the descriptors of its process."
        return self._lost(f"the worker process {how} {self.again}".strip())


@dataclass
class Workers(Executor):
    """A pool of `capacity` worker processes, which prefers workers that have a stage's inputs in memory.

    With `isolate`, each stage has its own process. Stages that take longer than `timeout` seconds fail. Stages on
    cuda start on a GPU with room: fewer than `per_gpu` stages and sufficient memory.
    """

    capacity: int  # number of processes
    store: Path
    data: Path  # the data directory
    isolate: bool = False  # use a separate process for each stage
    timeout: float | None = None  # maximum seconds per stage
    per_gpu: int = 1  # maximum number of concurrent stages on a GPU
    gpus: Sequence[GPU] | None = None  # GPUs to use; by default, all GPUs of this machine
    local, shares_gpus = True, True

    def __post_init__(self) -> None:
        numbers = range(self.capacity)
        self.all = [Worker(number, self.store, self.data, self.isolate, self.timeout) for number in numbers]
        self.idle, self.lock = [*self.all], Lock()
        self.placed = GPUs(gpus_here() if self.gpus is None else self.gpus, self.per_gpu)
        self.memory: dict[str, int | None] = {}  # key of a stage -> bytes needed
        self.threads = ThreadPoolExecutor(self.capacity)

    def has_room(self, stage: Stage, memory: int | None) -> bool:
        self.memory[stage.key] = memory
        with self.lock:
            return not (self.placed.gpus and _on_gpu(stage)) or self.placed.free(memory) is not None

    def submit(self, request: StageRequest, tell: Tell) -> Future[None]:
        reads, stage = {key for _, key in request.stage.inputs.values()}, request.stage
        with self.lock:
            gpu = None
            if _on_gpu(stage) and not request.build:
                gpu = self.placed.begin(stage.key, self.memory.pop(stage.key, None))
            visible = gpu.name if gpu and len(self.placed.gpus) > 1 else None
            worker = max(self.idle, key=lambda worker: _suits(worker, reads, visible))
            self.idle.remove(worker)
        return self.threads.submit(self._work, worker, request, tell, visible)

    def _work(self, worker: Worker, request: StageRequest, tell: Tell, gpu: str | None) -> None:
        try:
            if gpu is not None:
                worker.see(gpu)
            worker.do(request, tell, self.warn, partial(self.hear, request.stage))
        finally:
            with self.lock:
                self.placed.end(request.stage.key)
                self.idle.append(worker)

    def close(self) -> None:
        for worker in self.all:  # first signal all workers, so that they clean up in parallel
            if worker.process is not None:
                worker.process.terminate()
        for worker in self.all:
            worker.stop()
        self.threads.shutdown()


def _on_gpu(stage: Stage) -> bool:
    return stage.settings.get("device") == "cuda"


def _suits(worker: Worker, reads: set[str], gpu: str | None) -> tuple[bool, int, bool, int]:
    """Return the rank of a worker for a stage, by visible GPU, inputs in memory, started process, and low number."""
    sees = gpu is None or worker.gpu == gpu
    return sees, len(reads & worker.held), worker.process is not None and sees, -worker.number


def _warning(process: int, suspended: bool) -> str:
    """Return a warning about a silent process."""
    if suspended:
        return f"the worker process {process} is suspended. The run waits for it; `kill -CONT {process}` resumes it."
    return f"no heartbeat from a worker process for {SILENCE:g} s. Set --stage-timeout to stop such workers."


def _is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process is suspended, for example by SIGSTOP or a debugger."""
    import psutil

    try:
        return bool(psutil.Process(process.pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP))
    except psutil.Error:
        return False


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
