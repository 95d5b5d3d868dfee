"""The Configs and hooks of this plugin; does not import submitit."""

import shlex
from pathlib import Path
from typing import Literal

from pydantic import PositiveFloat, PositiveInt, field_validator

from bench_core import ExecutorConfig, hookimpl


class SlurmConfig(ExecutorConfig):
    """Slurm jobs, submitted with submitit; or, for testing, processes on this machine."""

    name, target = "slurm", "bench_slurm.executor:Slurm"

    cluster: Literal["slurm", "local", "debug"] = "slurm"  #: `local`: processes on this host; `debug`: this process
    partition: str | None = None  #: Slurm partition of the jobs
    gpu_partition: str | None = None  #: partition for stages on cuda; by default `partition`
    account: str | None = None  #: account that jobs are charged to
    qos: str | None = None  #: quality of service
    constraint: str | None = None  #: required node features
    gres: str | None = None  #: GPU request for stages on cuda, such as gpu:a100:1; by default --gpus-per-node
    cpus: PositiveInt | None = None  #: CPUs per job; by default the suite's threads
    memory: PositiveFloat | None = None  #: gigabytes per job
    minutes: PositiveFloat | None = None  #: time limit of a job; longer training continues in another job
    extra: str = ""  #: additional options, as on the command line of sbatch: "--exclude=n1,n2 --nice=100"
    setup: str | None = None  #: shell command at the start of a job
    brief: Literal["here", "job"] = "here"  #: where very short stages run: on this machine or as a job
    folder: Path | None = None  #: folder for submitit's files; by default `<store>-jobs` next to the store
    poll: PositiveFloat = 10.0  #: seconds between calls of squeue

    @field_validator("extra")
    @classmethod
    def _readable(cls, text: str) -> str:
        options(text)
        return text


def options(text: str) -> dict[str, str | bool]:
    """Parse sbatch options into a mapping; options without a value are True. Raises ValueError."""
    parsed: dict[str, str | bool] = {}
    for word in shlex.split(text):
        name, equals, value = word.partition("=")
        if not name.startswith("--") or len(name) < 3:
            raise ValueError(f"{word!r} is not an option of sbatch such as --exclude=n1 or --exclusive")
        parsed[name[2:]] = value if equals else True
    return parsed


@hookimpl
def bench_executors() -> list[type[ExecutorConfig]]:
    """Return the executor."""
    return [SlurmConfig]
