"""The parts that this plugin provides, as Configs and hooks; imports no submitit."""

import shlex
from pathlib import Path
from typing import Literal

from pydantic import PositiveFloat, PositiveInt, field_validator

from bench_core import ExecutorConfig, hookimpl


class SlurmConfig(ExecutorConfig):
    """Slurm jobs, submitted by submitit; or, to try it out, processes of this machine."""

    name, target = "slurm", "bench_slurm.executor:Slurm"

    cluster: Literal["slurm", "local", "debug"] = "slurm"  #: `local`: processes of this machine; `debug`: this one
    partition: str | None = None  #: as for sbatch, like all that follow up to `minutes`
    gpu_partition: str | None = None  #: of stages on cuda; by default `partition`
    account: str | None = None  #: that jobs are charged to
    qos: str | None = None  #: quality of service
    constraint: str | None = None  #: features that a node must have
    gres: str | None = None  #: how a stage on cuda asks for its GPU, such as gpu:a100:1
    cpus: PositiveInt | None = None  #: of a job; by default the suite's threads
    memory: PositiveFloat | None = None  #: gigabytes of a job
    minutes: PositiveFloat | None = None  #: time limit of a job; a longer training goes on in another one
    extra: str = ""  #: more options, as on the command line of sbatch: "--exclude=n1,n2 --nice=100"
    setup: str | None = None  #: a shell command that comes first in a job
    brief: Literal["here", "job"] = "here"  #: where stages that take moments are performed
    folder: Path | None = None  #: for what submitit writes; by default beside the store, `<store>-jobs`
    poll: PositiveFloat = 10.0  #: seconds between two calls of squeue

    @field_validator("extra")
    @classmethod
    def _readable(cls, text: str) -> str:
        options(text)
        return text


def options(text: str) -> dict[str, str | bool]:
    """Return options as sbatch takes them, by name; those without a value are True. Raises ValueError."""
    found: dict[str, str | bool] = {}
    for word in shlex.split(text):
        name, equals, value = word.partition("=")
        if not name.startswith("--") or len(name) < 3:
            raise ValueError(f"{word!r} is no option of sbatch such as --exclude=n1 or --exclusive")
        found[name[2:]] = value if equals else True
    return found


@hookimpl
def bench_executors() -> list[type[ExecutorConfig]]:
    """Return the one executor."""
    return [SlurmConfig]
