"""Clusters: Slurm through submitit, or this machine for testing."""

import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import psutil
from submitit.core.core import Executor as SubmititExecutor
from submitit.core.core import Job
from submitit.local.debug import DebugExecutor
from submitit.local.local import LocalExecutor
from submitit.slurm.slurm import SlurmExecutor

from bench_core import StageRequest, SuiteError
from bench_slurm import jobs
from bench_slurm.plugin import SlurmConfig, options

COMMANDS = ("sbatch", "srun", "squeue", "scancel")
PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED"}
TERMINATION_SECONDS = 10.0  # time that a process has for cleanup
NO_LIMIT_MINUTES = 365 * 24 * 60.0


@dataclass
class Cluster(ABC):
    """Accepts jobs and reports their states."""

    config: SlurmConfig
    folder: Path  # submitit's files
    call: ClassVar[Callable[..., None]] = staticmethod(jobs.job)
    glance: ClassVar[float] = 0.1  # seconds between polls of a job
    patience: ClassVar[float] = 0.0  # seconds to wait until the last files of a finished job are visible
    kind: ClassVar[type[SubmititExecutor]]

    def __post_init__(self) -> None:
        self.submitit = self.kind(self.folder)

    @abstractmethod
    def submit(self, request: StageRequest, *words: str | float | None) -> Job[None]:
        """Submit a job for a stage; `words` are arguments of the function in the job, including the request."""

    @abstractmethod
    def state(self, job: Job[None]) -> str:
        """Return the state of a job in capitals."""

    @abstractmethod
    def has_left(self, job: Job[None]) -> bool:
        """Return whether a job that answered has written all its files."""

    @abstractmethod
    def cancel(self, jobs: Collection[Job[None]]) -> None:
        """Cancel jobs."""


@dataclass
class OnSlurm(Cluster):
    """Slurm jobs; a single squeue call polls all their states, at the configured interval."""

    kind = SlurmExecutor
    glance = 1.0
    patience = 30.0
    states: dict[str, str] = field(default_factory=dict)  # job id -> state
    last_poll: float = float("-inf")
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        if missing := [command for command in COMMANDS if shutil.which(command) is None]:
            verb = "was" if len(missing) == 1 else "were"
            raise SuiteError(
                f"executor 'slurm' needs {', '.join(missing)}, which {verb} not found on this machine. Run where "
                "Slurm is available, such as on a login node, or use `--with cluster=local` to test without Slurm."
            )
        super().__post_init__()

    def submit(self, request: StageRequest, *words: str | float | None) -> Job[None]:
        self.submitit.update_parameters(**self._options(request))
        job: Job[None] = self.submitit.submit(self.call, *words)
        with self.lock:
            self.states[job.job_id] = "PENDING"
        return job

    def _options(self, request: StageRequest) -> dict[str, Any]:
        """Return all options of a job; None leaves an option to Slurm."""
        config, settings = self.config, {} if request.build else request.stage.settings
        cuda = settings.get("device") == "cuda"
        devices = settings.get("devices", 1)
        cpus = config.cpus or settings.get("threads", 1) * devices
        return {
            "job_name": f"bench-{request.stage.kind}",
            "partition": (config.gpu_partition if cuda else None) or config.partition,
            "account": config.account,
            "qos": config.qos,
            "constraint": config.constraint,
            "gres": config.gres if cuda else None,
            "gpus_per_node": devices if cuda and config.gres is None else None,
            "cpus_per_task": cpus,
            "srun_args": [f"--cpus-per-task={cpus}"],  # since Slurm 22.05, srun does not inherit this from the job
            "mem": f"{config.memory * 1000:.0f}M" if config.memory else None,
            "time": max(1, round(config.minutes)) if config.minutes else None,
            "setup": [config.setup] if config.setup else None,
            "additional_parameters": options(config.extra),
        }

    def state(self, job: Job[None]) -> str:
        with self.lock:
            if time.monotonic() - self.last_poll >= self.config.poll:
                self._poll()
                self.last_poll = time.monotonic()
            return self.states.get(job.job_id, "GONE")

    def _poll(self) -> None:
        """Update the states of all active jobs; unchanged if Slurm does not respond."""
        active = sorted(name for name, state in self.states.items() if state in PENDING | RUNNING)
        if not active:
            return
        command = ["squeue", "--noheader", "--states=all", "--format=%i %T", f"--jobs={','.join(active)}"]
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return
        if done.returncode == 0 or "Invalid job id" in done.stderr:  # the error if Slurm has forgotten all jobs
            known = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line.strip())
            self.states |= {name: known.get(name, "GONE").strip() for name in active}

    def has_left(self, job: Job[None]) -> bool:
        return bool(job.paths.result_pickle.exists())  # the last file that a job writes; it is never read

    def cancel(self, jobs: Collection[Job[None]]) -> None:
        if jobs:
            with suppress(OSError):
                subprocess.run(["scancel", *(job.job_id for job in jobs)], capture_output=True)


class OnThisMachine(Cluster):
    """Jobs that run as processes on this machine; the folder in their command line identifies them."""

    kind = LocalExecutor

    def submit(self, request: StageRequest, *words: str | float | None) -> Job[None]:
        cuda = not request.build and request.stage.settings.get("device") == "cuda"
        gpus = request.stage.settings.get("devices", 1) if cuda else 0
        self.submitit.update_parameters(timeout_min=self.config.minutes or NO_LIMIT_MINUTES, gpus_per_node=gpus)
        job: Job[None] = self.submitit.submit(self.call, *words)
        return job

    def state(self, job: Job[None]) -> str:
        return str(job.state).upper()

    def has_left(self, job: Job[None]) -> bool:
        return self.state(job) != "RUNNING"

    def cancel(self, jobs: Collection[Job[None]]) -> None:
        end = time.monotonic() + TERMINATION_SECONDS
        while processes := self._processes():
            for process in processes:
                with suppress(psutil.Error):
                    process.terminate() if time.monotonic() < end else process.kill()
            psutil.wait_procs(processes, timeout=0.5)

    def _processes(self) -> list[psutil.Process]:
        mine = psutil.process_iter(["cmdline"])
        return [process for process in mine if str(self.folder) in (process.info["cmdline"] or ())]


class InThisProcess(Cluster):
    """Jobs that run during submission."""

    kind = DebugExecutor
    call = staticmethod(jobs.perform)

    def submit(self, request: StageRequest, *words: str | float | None) -> Job[None]:
        job: Job[None] = self.submitit.submit(self.call, *words)
        job.result()
        return job

    def state(self, job: Job[None]) -> str:
        return "FINISHED"

    def has_left(self, job: Job[None]) -> bool:
        return True

    def cancel(self, jobs: Collection[Job[None]]) -> None:
        pass


CLUSTERS = {"slurm": OnSlurm, "local": OnThisMachine, "debug": InThisProcess}
