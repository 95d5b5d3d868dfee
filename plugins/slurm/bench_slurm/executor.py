"""The executor on Slurm: submits jobs, watches them, cleans up."""

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
from bench_slurm.jobs import ANSWER, EVENTS, TOLD, EventReader, read
from bench_slurm.plugin import SlurmConfig

LAST_LINES = 20  # of what a dead job wrote
PATIENCE = 5.0  # seconds that a job has to leave after its answer
RESERVE = 120.0  # seconds before the end of a job at which a training stops, but at most a fifth of its time
HINTS = {
    "TIMEOUT": " Give jobs more time by --with minutes=N.",
    "OUT_OF_MEMORY": " Give jobs more room by --with memory=GIGABYTES.",
}


@dataclass
class Slurm(Executor):
    """So many jobs at a time, and a worker process of this machine for what takes moments."""

    config: SlurmConfig
    store: Path
    data: Path
    capacity: int

    def __post_init__(self) -> None:
        logging.getLogger("submitit").setLevel(logging.CRITICAL)
        parent = self.config.folder or self.store.with_name(f"{self.store.name}-jobs")
        self.folder = parent.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{token_hex(3)}"
        self.cluster: Cluster = CLUSTERS[self.config.cluster](self.config, self.folder)
        self.jobs: dict[str, Job[None]] = {}  # under way
        self.lock, self.brief, self.closed = Lock(), Lock(), Event()
        self.here = Workers(1, self.store, self.data)
        # Interrupts are for the run, which then ends its jobs: those started by these threads inherit that.
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
        self.closed.set()
        self.here.close()
        with self.lock:
            self.cluster.cancel(self.jobs.values())
        self.threads.shutdown(cancel_futures=True)
        for folder in (self.folder, self.folder.parent):
            with suppress(OSError):  # there are logs of jobs that failed
                folder.rmdir()

    def _work(self, request: StageRequest, tell: Tell) -> None:
        """Have a stage performed; raise StageFailed, also where its job dies."""
        if self.config.brief == "here" and (request.build or request.stage.kind == "measure"):
            with self.brief:
                self.here.warn = self.warn
                self.here.submit(request, tell).result()
            return
        answer = self._in_a_job(request, tell)
        while _goes_on(request, answer):
            answer = self._in_a_job(request, tell)
        check_answer(answer)
        if not request.build:
            await_artifact(self.store, request.stage)

    def _in_a_job(self, request: StageRequest, tell: Tell) -> dict[str, Any]:
        """Return the answer of a job; raise StageFailed if there is none."""
        place = self.folder / f"{request.stage.kind}-{request.stage.key[:12]}-{token_hex(3)}"
        job = self._submitted(request, place)
        try:
            answer = self._answer(job, request, place, tell)
        finally:
            del self.jobs[job.job_id]
        for text in answer["warned"]:
            self.warn(text)
        self._clean(job, place, "done" in answer or answer["failed"]["stopped"])
        return answer

    def _submitted(self, request: StageRequest, place: Path) -> Job[None]:
        minutes = self.config.minutes
        seconds = None if minutes is None else 60 * minutes - min(RESERVE, 12 * minutes)
        try:
            with self.lock:
                if self.closed.is_set():
                    raise _interrupted()
                place.mkdir(parents=True)
                job = self.cluster.submit(
                    request, json.dumps(request.to_json()), str(self.store), str(self.data), str(place), seconds
                )
                self.jobs[job.job_id] = job
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise StageFailed(f"the job was not taken: {lines[-1].strip()}", str(error)) from None
        return job

    def _answer(self, job: Job[None], request: StageRequest, place: Path, tell: Tell) -> dict[str, Any]:
        """Wait for the answer of a job, and tell of it meanwhile."""
        events = EventReader(place / EVENTS)
        ended: float | None = None
        while True:
            state, answer = self.cluster.state(job), read(place / ANSWER)
            for event in events():  # read after the answer, before which the last is written
                self.hear(request.stage, event)
            if answer:
                return dict(answer)
            if self.closed.is_set():
                raise _interrupted()
            if state in PENDING | RUNNING:
                ended = None
                tell(*((state == "RUNNING" and read(place / TOLD)) or (f"job {job.job_id} {state.lower()}", 0.0)))
            elif ended is None:
                ended = time.monotonic()
            elif time.monotonic() - ended >= self.cluster.patience:
                raise _death(job, state)
            self.closed.wait(self.cluster.glance)

    def _clean(self, job: Job[None], place: Path, well: bool) -> None:
        """Remove what a job left; of one whose stage failed, keep what it wrote."""
        end = time.monotonic() + PATIENCE
        while not self.cluster.has_left(job) and time.monotonic() < end:
            time.sleep(0.05)
        shutil.rmtree(place, ignore_errors=True)
        for path in self.folder.glob(f"{job.job_id}_*" if well else f"{job.job_id}_*.pkl"):
            path.unlink(missing_ok=True)
        for path in self.folder.glob(".submission_file_*"):
            if path.is_symlink() and not path.exists():
                path.unlink(missing_ok=True)


def _goes_on(request: StageRequest, answer: dict[str, Any]) -> bool:
    """Return whether a training stopped because the time of its job was up, with a checkpoint to go on from."""
    stopped = answer.get("failed", {}).get("stopped", False)
    return stopped and not answer["warned"] and (request.until is None or time.time() < request.until)


def _interrupted() -> StageFailed:
    return StageFailed("it was interrupted. Run the suite again to continue.", expected=True)


def _death(job: Job[None], state: str) -> StageFailed:
    """Return what to say of a job that ended without an answer."""
    words = ""
    for path in (job.paths.stderr, job.paths.stdout):
        with suppress(OSError):
            words = words or path.read_text(encoding="utf-8", errors="replace")
    last = "\n".join(words.splitlines()[-LAST_LINES:])
    return StageFailed(
        f"job {job.job_id} ended without an answer ({state}).{HINTS.get(state, '')} Its logs are kept as "
        f"{job.paths.stderr.parent / f'{job.job_id}_*'}. Run the suite again to continue.",
        last,
    )
