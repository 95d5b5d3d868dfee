"""Who performs the stages of a run."""

from pathlib import Path

from bench_core.config import ExecutorConfig
from bench_core.errors import SuiteError
from bench_core.execution.executor import Executor, Here
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

    Stages share a GPU as `per_gpu` says, or else the `suite`. Only worker processes support `isolate` and `timeout`,
    and some executors `per_gpu`; raises SuiteError for others.
    """
    if (isolate or timeout is not None) and (elsewhere is not None or not workers):
        what = "--isolate" if isolate else "--stage-timeout"
        others = "--workers 0 has none" if elsewhere is None else f"executor {elsewhere.name!r} has its own"
        raise SuiteError(f"{what} needs worker processes of this machine, and {others}. Leave one of them out.")
    said = [one.per_gpu for one in suite.hardware.values()] if suite else []
    sharing = per_gpu or min(said, default=1)
    if elsewhere is not None:
        made: Executor = elsewhere.load()(elsewhere, store.root.resolve(), data.resolve(), max(1, workers))
        if (per_gpu or 1) > 1 and not made.shares_gpus:
            made.close()
            raise SuiteError(
                f"--per-gpu: executor {elsewhere.name!r} gives each stage a GPU of its own. Leave it out."
            )
        made.per_gpu = sharing
        return made
    if not workers:
        return Here(store, data)
    return Workers(workers, store.root, data, isolate, timeout, sharing)
