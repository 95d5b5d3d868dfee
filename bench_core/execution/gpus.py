"""The GPUs of this machine, and which stages are on them: at most so many on each, and no more than fit in memory."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOM = 0.95  #: of the memory of a GPU that stages may need in all


@dataclass(frozen=True)
class GPU:
    """A GPU by the name that CUDA_VISIBLE_DEVICES has for it, and its bytes of memory; None if unknown."""

    name: str
    memory: int | None = None


@dataclass
class GPUs:
    """The stages on each GPU; a stage whose memory is unknown counts by number alone."""

    gpus: Sequence[GPU]
    per_gpu: int = 1  # stages at a time
    on: dict[str, tuple[GPU, int]] = field(default_factory=dict)  # key of a stage -> where it is, and its bytes

    def free(self, memory: int | None) -> GPU | None:
        """Return the GPU with the fewest stages of those with room for another; None if there is none."""
        found = [gpu for gpu in self.gpus if self._has_room(gpu, memory or 0)]
        return min(found, key=self._number) if found else None

    def begin(self, key: str, memory: int | None) -> GPU | None:
        """Place a stage, where there is no room on the GPU with the fewest; return None without GPUs."""
        gpu = self.free(memory) or (min(self.gpus, key=self._number) if self.gpus else None)
        if gpu:
            self.on[key] = gpu, memory or 0
        return gpu

    def end(self, key: str) -> None:
        """Record that a stage has ended."""
        self.on.pop(key, None)

    def _number(self, gpu: GPU) -> int:
        return sum(one is gpu for one, _ in self.on.values())

    def _has_room(self, gpu: GPU, memory: int) -> bool:
        own = [size for one, size in self.on.values() if one is gpu]
        if not own:  # a stage that is alone has all there is
            return True
        return len(own) < self.per_gpu and (gpu.memory is None or sum(own) + memory <= ROOM * gpu.memory)


def gpus_here() -> list[GPU]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES allows, or all; without importing torch."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        names = [str(place) for place in range(len(list(Path("/dev").glob("nvidia[0-9]*"))))]
    else:
        names = [name for name in allowed.split(",") if name]
    sizes = _memory() if names else {}
    return [GPU(name, _memory_of(name, sizes)) for name in names]


def _memory_of(name: str, sizes: Mapping[str, int]) -> int | None:
    """Return the memory of a GPU, by its number or the beginning of its UUID."""
    return next((size for known, size in sizes.items() if known == name or known.startswith(f"{name}-")), None)


def _memory() -> dict[str, int]:
    """Return the bytes of each GPU by number and by UUID, as nvidia-smi tells; nothing if it cannot."""
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=30)
        rows = [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]
        return {name: int(size) * 2**20 for number, uuid, size in rows for name in (number, uuid)}
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
