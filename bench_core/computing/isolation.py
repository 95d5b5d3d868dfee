"""Isolation of stages: a stage cannot affect the next, because process state and loaded objects are reset."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from bench_core.computing.context import StageContext
from bench_core.computing.process_state import defined_state
from bench_core.planning.stages import Stage


@contextmanager
def apart(context: StageContext, stage: Stage) -> Iterator[None]:
    """Put the process into a defined state for a stage; drop loaded objects that a failed stage may have changed."""
    process = os.getpid()
    threads, seed = stage.settings.get("threads", 1), stage.settings.get("seed", 0)

    def warn(names: list[str]) -> None:
        context.warn(f"it changed {', '.join(names)}, restored before the next stage.")

    try:
        with defined_state(threads, seed, context.home, warn):
            context.begun()
            yield
    except BaseException:
        context.loaded.clear()
        raise
    finally:
        if os.getpid() != process:  # a part forked, and its child returned
            os._exit(1)
