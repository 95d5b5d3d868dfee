"""Assignment of stages to the GPUs of this machine, with limits on number and memory."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_MEMORY_SHARE = 0.95  #: maximum fraction of a GPU's memory that its stages may need together


@dataclass(frozen=True)
class GPU:
    """A GPU: its name in CUDA_VISIBLE_DEVICES, and its memory in bytes (None if unknown)."""

    name: str
    memory: int | None = None


@dataclass
class GPUs:
    """The stages on each GPU; unknown memory counts as 0."""

    gpus: Sequence[GPU]
    per_gpu: int = 1  # maximum number of concurrent stages
    on: dict[str, tuple[GPU, int]] = field(default_factory=dict)  # key of a stage -> its GPU and bytes

    def free(self, memory: int | None) -> GPU | None:
        """Return the GPU with the fewest stages among GPUs with room for another; None if no GPU has room."""
        free = [gpu for gpu in self.gpus if self._has_room(gpu, memory or 0)]
        return min(free, key=self._number) if free else None

    def begin(self, key: str, memory: int | None) -> GPU | None:
        """Place a stage on the GPU with the fewest stages, preferring GPUs with room; return None without GPUs."""
        gpu = self.free(memory) or (min(self.gpus, key=self._number) if self.gpus else None)
        if gpu:
            self.on[key] = gpu, memory or 0
        return gpu

    def end(self, key: str) -> None:
        """Record that a stage has ended."""
        self.on.pop(key, None)

    def _number(self, gpu: GPU) -> int:
        return sum(other is gpu for other, _ in self.on.values())

    def _has_room(self, gpu: GPU, memory: int) -> bool:
        sizes = [size for other, size in self.on.values() if other is gpu]
        if not sizes:  # a stage alone on a GPU may use all of its memory
            return True
        fits = gpu.memory is None or sum(sizes) + memory <= MAX_MEMORY_SHARE * gpu.memory
        return len(sizes) < self.per_gpu and fits


def gpus_here() -> list[GPU]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES allows, by default all; does not import torch."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        names = [str(place) for place in range(len(list(Path("/dev").glob("nvidia[0-9]*"))))]
    else:
        names = [name for name in allowed.split(",") if name]
    sizes = _memory() if names else {}
    return [GPU(name, _memory_of(name, sizes)) for name in names]


def _memory_of(name: str, sizes: Mapping[str, int]) -> int | None:
    """Return the memory of a GPU given by its number or a prefix of its UUID."""
    return next((size for key, size in sizes.items() if key == name or key.startswith(f"{name}-")), None)


def _memory() -> dict[str, int]:
    """Return the memory of each GPU in bytes, by number and by UUID; empty if nvidia-smi fails."""
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=30)
        rows = [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]
        return {name: int(size) * 2**20 for number, uuid, size in rows for name in (number, uuid)}
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
