"""A pool of worker processes, isolated from crashes of each other."""

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

PATIENCE = 10.0  # seconds that a worker has to clean up
PAUSE = 0.5  # seconds between two looks whether a worker lives
LONGEST = 5.0  # seconds that can pass between two looks; in whatever is more this process was suspended, too
SILENCE = 60.0  # seconds without a sign of life after which a worker gets a warning
SUSPENSION = 3600.0  # seconds after which a worker that stays suspended is given up
LAST_WORDS = 4000  # characters of what a dead worker wrote
AGAIN = "Run the suite again to continue."


@dataclass
class Worker:
    """One worker process, started on first use, and restarted after it died."""

    number: int
    store: Path
    data: Path
    isolate: bool = False  # a process for each stage
    timeout: float | None = None  # seconds that a stage may take
    suspension: float = field(default_factory=lambda: SUSPENSION)  # seconds for which it may be suspended
    module: str = "bench_core.execution.worker"  # that its process executes
    option: str = "--stage-timeout"  # that gives the timeout
    again: str = AGAIN  # what to do after it is lost
    gpu: str | None = None  # that its process sees, as CUDA_VISIBLE_DEVICES has it; by default whatever is here
    process: subprocess.Popen[bytes] | None = None
    channel: Channel | None = None
    words: IO[bytes] | None = None  # what it writes besides its answers
    held: frozenset[str] = frozenset()  # keys of the artifacts that it read last

    def do(self, request: StageRequest, tell: Tell, warn: Callable[[str], None], hear: Hear = silent) -> None:
        """Perform a stage; raise StageFailed, also if the process dies."""
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
        """Send a request; yield the answers up to the last one; raise StageFailed if the process dies."""
        process, channel = self._ready()
        token = token_hex(8)
        with suppress(OSError):  # it is dead, as the lack of an answer will tell
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
            raise self._lost(f"the worker process sent something other than its answer ({error}).") from None
        finally:
            if self.isolate:
                self.kill()

    def see(self, gpu: str) -> None:
        """Have a process that sees this GPU, and no others; it is started anew if it has another."""
        if gpu != self.gpu:
            self.kill()
            self.gpu = gpu

    def _gpus(self) -> dict[str, str]:
        """Return the variables that give the process its GPU, and tell it of all, which a training may share in."""
        if self.gpu is None:
            return {}
        return {"CUDA_VISIBLE_DEVICES": self.gpu, "BENCH_GPUS": ",".join(gpu.name for gpu in gpus_here())}

    def stop(self) -> None:
        """Terminate the process; it has some time to clean up."""
        if (process := self.process) is not None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """Kill the process and all its children."""
        process, self.process, self.held = self.process, None, frozenset()
        if process is not None:
            with suppress(ProcessLookupError, PermissionError):  # it is over; on macOS that is not permitted
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.channel is not None:
            self.channel.close()

    def _ready(self) -> tuple[subprocess.Popen[bytes], Channel]:
        """Return a process ready for a request: the last one, unless it died or a part still writes to it."""
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
                # A session of its own: an interrupt is for the run, which then ends its workers.
                self.process = subprocess.Popen(
                    [*command, str(theirs.fileno())], pass_fds=[theirs.fileno()], start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=self.words, stderr=self.words,
                    env={**os.environ, "PYTHONHASHSEED": "0", **self._gpus()},
                )  # fmt: skip
            except OSError as error:
                ours.close()
                raise StageFailed(
                    f"cannot start a worker process: {error}. {self.again}".strip(), expected=True
                ) from None
        self.channel = Channel(ours)
        return self.process, self.channel

    def _answers(
        self, process: subprocess.Popen[bytes], channel: Channel, token: str, warn: Callable[[str], None]
    ) -> Iterator[dict[str, Any]]:
        """Yield the messages of a request; raise StageFailed if the worker died or took too long.

        Neither counts as its time: while it is suspended, or while this process is, as on a machine that sleeps.
        """
        last, begun, warned = time.monotonic(), False, set[str]()
        spent = silence = suspension = 0.0  # seconds
        while True:
            ended = process.poll() is not None  # looked at before its last words are read
            answers = channel.heard(token, 0.0 if ended else PAUSE)
            now = time.monotonic()
            passed, last = min(now - last, LONGEST), now
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
            if any(one.get("begun") for one in answers):
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
        """Kill a lost process; return the failure of its stage."""
        self.kill()
        assert self.words is not None
        self.words.seek(0)
        return StageFailed(text, self.words.read().decode(errors="replace")[-LAST_WORDS:])

    def _death(self, process: subprocess.Popen[bytes]) -> StageFailed:
        """Return how a process ended; one that only closed its socket is killed."""
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = MUTE
        hint = " The machine may be out of memory." if code == -signal.SIGKILL else ""
        how = f"was killed by {_signal(-code)}.{hint}" if code < 0 else f"ended with code {code}."
        if code == MUTE:
            how = "could not answer: a part closed the descriptors of its process."
        return self._lost(f"the worker process {how} {self.again}".strip())


@dataclass
class Workers(Executor):
    """A pool of `capacity` worker processes, which prefers those with the inputs of a stage in memory.

    With `isolate`, each stage has its own process. A stage that takes longer than `timeout` seconds fails. Stages on
    cuda begin where there is room: at most `per_gpu` are on a GPU, and no more than fit in its memory.
    """

    capacity: int  # processes
    store: Path  # folder of artifacts
    data: Path  # folder of corpora
    isolate: bool = False  # a process for each stage
    timeout: float | None = None  # seconds per stage
    per_gpu: int = 1  # stages at a time
    gpus: Sequence[GPU] | None = None  # that it may use; by default those of this machine
    local, shares_gpus = True, True

    def __post_init__(self) -> None:
        numbers = range(self.capacity)
        self.all = [Worker(number, self.store, self.data, self.isolate, self.timeout) for number in numbers]
        self.idle, self.lock = [*self.all], Lock()
        self.placed = GPUs(gpus_here() if self.gpus is None else self.gpus, self.per_gpu)
        self.memory: dict[str, int | None] = {}  # of stages that could begin, by key: bytes
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
            several = gpu.name if gpu and len(self.placed.gpus) > 1 else None
            worker = max(self.idle, key=lambda one: _suits(one, reads, several))
            self.idle.remove(worker)
        return self.threads.submit(self._work, worker, request, tell, several)

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
        for worker in self.all:  # which clean up side by side
            if worker.process is not None:
                worker.process.terminate()
        for worker in self.all:
            worker.stop()
        self.threads.shutdown()


def _on_gpu(stage: Stage) -> bool:
    return stage.settings.get("device") == "cuda"


def _suits(worker: Worker, reads: set[str], gpu: str | None) -> tuple[bool, int, bool, int]:
    """Return how well a worker suits a stage: it sees the GPU, holds what the stage reads, is started, is first."""
    sees = gpu is None or worker.gpu == gpu
    return sees, len(reads & worker.held), worker.process is not None and sees, -worker.number


def _warning(process: int, suspended: bool) -> str:
    """Return a warning about a process that is silent."""
    if suspended:
        return (
            f"the worker process {process} is suspended. The run waits for it; `kill -CONT {process}` continues it."
        )
    return f"no heartbeat from a worker process for {SILENCE:g} s; --stage-timeout would end it."


def _is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process is suspended, as by SIGSTOP or a debugger."""
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
