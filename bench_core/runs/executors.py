"""The executors of a run."""

from pathlib import Path

from bench_core.config import ExecutorConfig
from bench_core.errors import SuiteError
from bench_core.execution.executor import Executor, InProcess
from bench_core.execution.workers import Workers
from bench_core.storage.store import Store
from bench_core.suites.suite import Suite


def executor(
    workers: int,
    store: Store,
    data: Path,
    elsewhere: ExecutorConfig | None = None,
    isolate: bool = False,
    timeout: float | None = None,
    per_gpu: int | None = None,
    suite: Suite | None = None,
) -> Executor:
    """Return a pool of `workers` processes, this process (0), or the executor `elsewhere`.

    Up to `per_gpu` stages share a GPU, by default the number in the `suite`. Only worker processes support `isolate`
    and `timeout`, and only some executors support `per_gpu`; unsupported options raise SuiteError.
    """
    if (isolate or timeout is not None) and (elsewhere is not None or not workers):
        option = "--isolate" if isolate else "--stage-timeout"
        conflict = "--workers 0 has none" if elsewhere is None else f"executor {elsewhere.name!r} has its own"
        raise SuiteError(f"{option} needs worker processes on this machine, but {conflict}. Leave one of them out.")
    limits = [hardware.per_gpu for hardware in suite.hardware.values()] if suite else []
    sharing = per_gpu or min(limits, default=1)
    if elsewhere is not None:
        custom: Executor = elsewhere.load()(elsewhere, store.root.resolve(), data.resolve(), max(1, workers))
        if (per_gpu or 1) > 1 and not custom.shares_gpus:
            custom.close()
            text = f"--per-gpu: executor {elsewhere.name!r} gives each stage a separate GPU."
            raise SuiteError(f"{text} Remove the option.")
        custom.per_gpu = sharing
        return custom
    if not workers:
        return InProcess(store, data)
    return Workers(workers, store.root, data, isolate, timeout, sharing)
