"""Starts and ends the additional processes for training on several devices."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import torch

from bench_core.computing.context import StageContext
from bench_core.errors import BenchError, PluginError
from bench_core.planning.stages import Stage, StageRequest
from bench_training.data_parallel import ALONE, DataParallel, join, leave

EXIT_TIMEOUT = 20.0  # seconds before a process is killed
MAX_OUTPUT_CHARS = 2000  # limit for a process's output in an error message


@contextmanager
def process_group(context: StageContext, stage: Stage, device: torch.device) -> Iterator[DataParallel]:
    """Yield the processes of a training run, including this process.

    Process 0 starts the others, each on its own device. When it ends, they end, because the pipe they read closes.
    """
    number = stage.settings.get("devices", 1)
    if number == 1:
        yield ALONE
        return
    try:
        if context.peer is not None:
            yield join(context.peer.rank, number, context.peer.place, device)
            return
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            place = str(Path(folder) / "processes")
            others = [stack.enter_context(_start_process(context, stage, rank, place)) for rank in range(1, number)]
            with _explain_failures(others):
                yield join(0, number, place, device)
    finally:
        leave()


@contextmanager
def _start_process(context: StageContext, stage: Stage, rank: int, place: str) -> Iterator[tuple[Any, IO[bytes]]]:
    """Start an additional process; end it after the block."""
    output = tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
    process = subprocess.Popen(
        [sys.executable, "-m", stage.about.peer],
        stdin=subprocess.PIPE, stdout=output, stderr=output, env={**os.environ, **_gpu_environment(stage, rank)},
        cwd=context.home,
    )  # fmt: skip
    request = asdict(context.request or StageRequest(stage))
    task: dict[str, Any] = {"rank": rank, "place": place, "store": str(context.store.root), "data": str(context.data)}
    try:
        assert process.stdin is not None
        with suppress(OSError):  # the process has ended; joining it will raise the error
            process.stdin.write(f"{json.dumps({**task, 'request': {**request, 'stage': asdict(stage)}})}\n".encode())
            process.stdin.flush()
        yield process, output
    finally:
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        output.close()


def _gpu_environment(stage: Stage, rank: int) -> dict[str, str]:
    """Return the environment variable that selects a process's GPU; raise PluginError if there are too few GPUs."""
    if stage.settings["device"] != "cuda":
        return {}
    allowed = os.environ.get("BENCH_GPUS") or os.environ.get("CUDA_VISIBLE_DEVICES")
    names = allowed.split(",") if allowed else [str(place) for place in range(torch.cuda.device_count())]
    first = os.environ.get("CUDA_VISIBLE_DEVICES", names[0]).split(",")[0]
    others = [name for name in names if name != first]
    if len(others) < rank:
        raise PluginError(
            f"hardware.devices: {stage.settings['devices']}, but this process has only {len(names)} GPU(s): "
            f"{', '.join(names)}. Set fewer `devices`."
        )
    return {"CUDA_VISIBLE_DEVICES": others[rank - 1]}


@contextmanager
def _explain_failures(others: Sequence[tuple[Any, IO[bytes]]]) -> Iterator[None]:
    """Replace a communication error with the output of the process that ended."""
    try:
        yield
    except BenchError:
        raise
    except RuntimeError as error:
        for number, (process, output) in enumerate(others, 1):
            with suppress(subprocess.TimeoutExpired):
                if process.wait(1.0):
                    output.seek(0)
                    text = output.read().decode(errors="replace")[-MAX_OUTPUT_CHARS:].strip()
                    reason = text or f"code {process.returncode}"
                    raise PluginError(f"process {number} of the training run ended: {reason}") from error
        raise
