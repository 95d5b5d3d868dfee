"""Starts the other processes of a training on several devices, and ends them."""

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
from bench_training.peers import ALONE, Peers, join, leave

PATIENCE = 20.0  # seconds that a process has to end by itself
LAST_WORDS = 2000  # characters of what a process wrote


@contextmanager
def process_group(context: StageContext, stage: Stage, device: torch.device) -> Iterator[Peers]:
    """Yield the processes of a training, of which this is one, perhaps the only one.

    Process 0 starts the others, each on a device of its own, which end with it: they read from a pipe that closes.
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
            others = [stack.enter_context(_other(context, stage, rank, place)) for rank in range(1, number)]
            with _named(others):
                yield join(0, number, place, device)
    finally:
        leave()


@contextmanager
def _other(context: StageContext, stage: Stage, rank: int, place: str) -> Iterator[tuple[Any, IO[bytes]]]:
    """Start one of the other processes; end it with the block."""
    words = tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
    process = subprocess.Popen(
        [sys.executable, "-m", stage.about.peer],
        stdin=subprocess.PIPE, stdout=words, stderr=words, env={**os.environ, **_own_gpu(stage, rank)},
        cwd=context.home,
    )  # fmt: skip
    request = asdict(context.request or StageRequest(stage))
    told: dict[str, Any] = {"rank": rank, "place": place, "store": str(context.store.root), "data": str(context.data)}
    try:
        assert process.stdin is not None
        with suppress(OSError):  # it is dead, as joining it will tell
            process.stdin.write(f"{json.dumps({**told, 'request': {**request, 'stage': asdict(stage)}})}\n".encode())
            process.stdin.flush()
        yield process, words
    finally:
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        words.close()


def _own_gpu(stage: Stage, rank: int) -> dict[str, str]:
    """Return the environment variable that gives a process its own GPU; raise PluginError if there are too few."""
    if stage.settings["device"] != "cuda":
        return {}
    allowed = os.environ.get("BENCH_GPUS") or os.environ.get("CUDA_VISIBLE_DEVICES")
    names = allowed.split(",") if allowed else [str(place) for place in range(torch.cuda.device_count())]
    own = os.environ.get("CUDA_VISIBLE_DEVICES", names[0]).split(",")[0]
    others = [name for name in names if name != own]
    if len(others) < rank:
        raise PluginError(
            f"hardware.devices: {stage.settings['devices']}, but this process may use {len(names)} GPU(s): "
            f"{', '.join(names)}. Set fewer `devices`."
        )
    return {"CUDA_VISIBLE_DEVICES": others[rank - 1]}


@contextmanager
def _named(others: Sequence[tuple[Any, IO[bytes]]]) -> Iterator[None]:
    """Turn an error of communication into what the process that ended has written."""
    try:
        yield
    except BenchError:
        raise
    except RuntimeError as error:
        for number, (process, words) in enumerate(others, 1):
            with suppress(subprocess.TimeoutExpired):
                if process.wait(1.0):
                    words.seek(0)
                    said = words.read().decode(errors="replace")[-LAST_WORDS:].strip()
                    reason = said or f"code {process.returncode}"
                    raise PluginError(f"process {number} of the training ended: {reason}") from error
        raise
