"""The Configs and hooks of this plugin; does not import Ray."""

import re

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from bench_core import ExecutorConfig, hookimpl


class RayConfig(ExecutorConfig):
    """Ray tasks on a cluster, or on this machine, with Ray started for the duration of the run."""

    name, target = "ray", "bench_ray.executor:Ray"

    address: str | None = (
        None  #: cluster: auto, 10.0.0.1:6379 or ray://10.0.0.1:10001; by default, Ray is started here
    )
    cpus: PositiveInt | None = None  #: CPUs reserved per stage; by default the suite's threads
    gpus: float | None = Field(None, gt=0, le=1)  #: GPUs reserved per stage on cuda; by default 1 / per_gpu
    memory: PositiveFloat | None = None  #: gigabytes reserved per stage; by default memory is ignored

    @field_validator("address")
    @classmethod
    def _readable(cls, address: str | None) -> str | None:
        if address is not None and not re.fullmatch(r"auto|(ray://)?[^\s/]+:\d+", address):
            raise ValueError("give auto, host:port or ray://host:port")
        return address


@hookimpl
def bench_executors() -> list[type[ExecutorConfig]]:
    """Return the executor."""
    return [RayConfig]
