"""The Slurm executor: submits jobs, monitors them, cleans up."""

import json
import logging
import shutil
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock
from typing import Any

from submitit.core.core import Job
from submitit.core.utils import FailedJobError, FailedSubmissionError

from bench_core import Executor, StageFailed, StageRequest, Tell, Workers, await_artifact, check_answer
from bench_slurm.clusters import CLUSTERS, PENDING, RUNNING, Cluster
from bench_slurm.jobs import ANSWER, EVENTS, PROGRESS, EventReader, read
from bench_slurm.plugin import SlurmConfig

NUMBER_OF_LOG_LINES = 20  # quoted from the output of a dead job
EXIT_SECONDS = 5.0  # time limit for a job to exit after its answer
RESERVE_SECONDS = 120.0  # training stops this long before the job's limit, at most a fifth of the limit
HINTS = {
    "TIMEOUT": " Increase the time limit with --with minutes=N.",
    "OUT_OF_MEMORY": " Increase the memory with --with memory=GIGABYTES.",
}


@dataclass
class Slurm(Executor):
    """Runs up to `capacity` jobs at a time, and brief stages in a worker process on this machine."""

    config: SlurmConfig
    store: Path
    data: Path
    capacity: int

    def __post_init__(self) -> None:
        logging.getLogger("submitit").setLevel(logging.CRITICAL)
        parent = self.config.folder or self.store.with_name(f"{self.store.name}-jobs")
        self.folder = parent.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{token_hex(3)}"
        self.cluster: Cluster = CLUSTERS[self.config.cluster](self.config, self.folder)
        self.jobs: dict[str, Job[None]] = {}  # active jobs, by id
        self.lock, self.brief, self.closed = Lock(), Lock(), Event()
        self.here = Workers(1, self.store, self.data)
        # Only the run handles interrupts and then cancels its jobs, which inherit the signal mask of these threads.
        self.threads = ThreadPoolExecutor(
            self.capacity, initializer=signal.pthread_sigmask, initargs=(signal.SIG_BLOCK, {signal.SIGINT})
        )

    def submit(self, request: StageRequest, tell: Tell) -> Future[None]:
        if self.config.cluster != "debug":
            return self.threads.submit(self._work, request, tell)
        future: Future[None] = Future()
        try:
            self._work(request, tell)
            future.set_result(None)
        except StageFailed as failure:
            future.set_exception(failure)
        return future

    def close(self) -> None:
        with self.lock:
            active = [*self.jobs.values()]  # their threads remove the jobs once `closed` is set
            self.closed.set()
        self.here.close()
        self.cluster.cancel(active)
        self.threads.shutdown(cancel_futures=True)
        for folder in (self.folder, self.folder.parent):
            with suppress(OSError):  # the folder is not empty: it contains logs of failed jobs
                folder.rmdir()

    def _work(self, request: StageRequest, tell: Tell) -> None:
        """Run a stage; raise StageFailed if it fails or its job dies."""
        if self.config.brief == "here" and (request.build or request.stage.kind == "measure"):
            with self.brief:
                self.here.warn = self.warn
                self.here.submit(request, tell).result()
            return
        answer = self._run_job(request, tell)
        while _needs_another_job(request, answer):
            answer = self._run_job(request, tell)
        check_answer(answer)
        if not request.build:
            await_artifact(self.store, request.stage)

    def _run_job(self, request: StageRequest, tell: Tell) -> dict[str, Any]:
        """Run a job and return its answer; raise StageFailed if there is none."""
        place = self.folder / f"{request.stage.kind}-{request.stage.key[:12]}-{token_hex(3)}"
        job = self._submit_job(request, place)
        try:
            answer = self._answer(job, request, place, tell)
        finally:
            del self.jobs[job.job_id]
        for text in answer["warned"]:
            self.warn(text)
        self._clean(job, place, "done" in answer or answer["failed"]["stopped"])
        return answer

    def _submit_job(self, request: StageRequest, place: Path) -> Job[None]:
        minutes = self.config.minutes
        seconds = None if minutes is None else 60 * minutes - min(RESERVE_SECONDS, 12 * minutes)
        try:
            with self.lock:
                if self.closed.is_set():
                    raise _interruption()
                place.mkdir(parents=True)
                job = self.cluster.submit(
                    request, json.dumps(request.to_json()), str(self.store), str(self.data), str(place), seconds
                )
                self.jobs[job.job_id] = job
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise StageFailed(f"the job was rejected: {lines[-1].strip()}", str(error)) from None
        return job

    def _answer(self, job: Job[None], request: StageRequest, place: Path, tell: Tell) -> dict[str, Any]:
        """Wait for the answer of a job and report its progress."""
        events = EventReader(place / EVENTS)
        ended: float | None = None
        while True:
            state, answer = self.cluster.state(job), read(place / ANSWER)
            for event in events():  # read after the answer, because the last event is written before the answer
                self.hear(request.stage, event)
            if answer:
                return dict(answer)
            if self.closed.is_set():
                raise _interruption()
            if state in PENDING | RUNNING:
                ended = None
                tell(*((state == "RUNNING" and read(place / PROGRESS)) or (f"job {job.job_id} {state.lower()}", 0.0)))
            elif ended is None:
                ended = time.monotonic()
            elif time.monotonic() - ended >= self.cluster.patience:
                raise _dead_job(job, state)
            self.closed.wait(self.cluster.glance)

    def _clean(self, job: Job[None], place: Path, well: bool) -> None:
        """Remove the files of a job; keep the logs of a failed stage."""
        end = time.monotonic() + EXIT_SECONDS
        while not self.cluster.has_left(job) and time.monotonic() < end:
            time.sleep(0.05)
        shutil.rmtree(place, ignore_errors=True)
        for path in self.folder.glob(f"{job.job_id}_*" if well else f"{job.job_id}_*.pkl"):
            path.unlink(missing_ok=True)
        for path in self.folder.glob(".submission_file_*"):
            if path.is_symlink() and not path.exists():
                path.unlink(missing_ok=True)


def _needs_another_job(request: StageRequest, answer: dict[str, Any]) -> bool:
    """Return whether training stopped at the time limit of its job, with a checkpoint to continue from."""
    stopped = answer.get("failed", {}).get("stopped", False)
    return stopped and not answer["warned"] and (request.until is None or time.time() < request.until)


def _interruption() -> StageFailed:
    return StageFailed("it was interrupted. Run the suite again to continue.", expected=True)


def _dead_job(job: Job[None], state: str) -> StageFailed:
    """Return the error for a job that ended without an answer."""
    output = ""
    for path in (job.paths.stderr, job.paths.stdout):
        with suppress(OSError):
            output = output or path.read_text(encoding="utf-8", errors="replace")
    last = "\n".join(output.splitlines()[-NUMBER_OF_LOG_LINES:])
    return StageFailed(
        f"job {job.job_id} ended without an answer ({state}).{HINTS.get(state, '')} Its logs are kept as "
        f"{job.paths.stderr.parent / f'{job.job_id}_*'}. Run the suite again to continue.",
        last,
    )
