"""Performs a stage so that it cannot affect the next: in a process in a defined state, with objects loaded again."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench_core.computing.context import StageContext
from bench_core.computing.process_state import defined_state
from bench_core.planning.stages import Stage


def isolated(
    work: Callable[[StageContext, Stage, Path], dict[str, Any]], context: StageContext, stage: Stage, folder: Path
) -> dict[str, Any]:
    """Perform a stage into a folder by the function of its kind; return counts for the costs."""
    with apart(context, stage):
        return work(context, stage, folder)


@contextmanager
def apart(context: StageContext, stage: Stage) -> Iterator[None]:
    """Give a stage a process in a defined state, and drop loaded objects that it may have changed."""
    process = os.getpid()
    threads, seed = stage.settings.get("threads", 1), stage.settings.get("seed", 0)

    def warn(names: list[str]) -> None:
        context.warn(f"it changed {', '.join(names)}, which is restored before the next stage.")

    try:
        with defined_state(threads, seed, context.home, warn):
            context.begun()
            yield
    except BaseException:
        context.loaded.clear()
        raise
    finally:
        if os.getpid() != process:  # a part forked, and its child came back from there
            os._exit(1)
