"""Moves tensors between main memory and the simulated GPU, also asynchronously; simulates their attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bench_authors.testing.pretended.placement import CPU, GPU, device_of, mark, on_gpu, storage

MOVES = {"to", "cuda", "cpu", "type_as"}
#: Methods allowed before the values of a tensor have arrived.
HARMLESS = {
    "size", "dim", "numel", "stride", "is_floating_point", "untyped_storage", "data_ptr", "view", "unbind", "__len__",
    "element_size", "storage_offset", "is_complex", "detach", "copy_", "__deepcopy__", "is_contiguous",
}  # fmt: skip


@dataclass(frozen=True)
class Move:
    """The parsed arguments of `to`, `cuda`, `cpu` or `type_as`."""

    tensor: torch.Tensor
    device: torch.device
    dtype: torch.dtype
    form: torch.memory_format = torch.preserve_format
    non_blocking: bool = False
    copy: bool = False

    @classmethod
    def parse(cls, name: str, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Move:
        """Parse the arguments of a tensor method."""
        if name == "type_as" or (name == "to" and args and isinstance(args[0], torch.Tensor)):
            other = args[0] if args else kwargs["other"]
            args, kwargs = args[1:], {"device": device_of(other), "dtype": other.dtype, **kwargs}
            name = "to"
        copy = kwargs.pop("copy", False)
        if name != "to":
            waits = kwargs.get("non_blocking", len(args) > 1 and args[1])
            return cls(tensor, GPU if name == "cuda" else CPU, tensor.dtype, non_blocking=bool(waits))
        device, dtype, non_blocking, form = torch._C._nn._parse_to(*args, **kwargs)
        return cls(
            tensor, torch.device(device) if device is not None else device_of(tensor), dtype or tensor.dtype,
            form or torch.preserve_format, bool(non_blocking), copy,
        )  # fmt: skip

    @property
    def stays(self) -> bool:
        """Return whether the tensor is already on the device."""
        return (self.device.type == "cuda") == on_gpu(self.tensor)

    @property
    def waits(self) -> bool:
        """Return whether the CPU waits for the copy."""
        return not self.stays and self.device.type in ("cpu", "cuda") and not self.non_blocking

    def result(self) -> torch.Tensor:
        """Return the tensor itself if nothing changes, else a copy on the device."""
        if self.device.type not in ("cpu", "cuda"):
            return self.tensor.to(self.device, self.dtype)
        moved = self.tensor.to(dtype=self.dtype, memory_format=self.form)
        if self.copy or (moved is self.tensor and not self.stays):
            moved = self.tensor.to(dtype=self.dtype, memory_format=self.form, copy=True)
        if self.device.type == "cuda":
            mark(moved)
        return moved


def pin(name: str, tensor: torch.Tensor) -> Any:
    """Simulate `pin_memory` and `is_pinned`."""
    is_pinned = getattr(storage(tensor), "pinned", False)
    if name == "is_pinned":
        return is_pinned
    if on_gpu(tensor):
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    result = tensor if is_pinned else tensor.clone()
    storage(result).pinned = True
    return result


def attribute(func: Any, tensor: torch.Tensor) -> Any:
    """Return an attribute of a tensor; tensor attributes, such as gradients, are on the same device."""
    descriptor, value = func.__self__, func(tensor)
    if not isinstance(value, bool | torch.device | torch.Tensor) or not on_gpu(tensor):
        return value
    if descriptor is torch.Tensor.device:
        return GPU
    if descriptor in (torch.Tensor.is_cuda, torch.Tensor.is_cpu):
        return descriptor is torch.Tensor.is_cuda
    if isinstance(value, torch.Tensor):
        mark(value)
    return value


class Transfers:
    """The pending copies, by target memory."""

    def __init__(self) -> None:
        self.pending: list[torch.Tensor] = []

    def begin(self, tensor: torch.Tensor) -> None:
        """Begin a copy to a CPU tensor."""
        storage(tensor).arriving = True
        self.pending.append(tensor)

    def arrive(self) -> None:
        """Complete all copies after a synchronization."""
        for tensor in self.pending:
            storage(tensor).arriving = False
        self.pending.clear()

    def check(self, name: str, inputs: Sequence[torch.Tensor]) -> None:
        """Raise RuntimeError if a function reads values that may not have arrived."""
        if not self.pending or name in HARMLESS:
            return
        if any(getattr(storage(tensor), "arriving", False) for tensor in inputs if not on_gpu(tensor)):
            raise RuntimeError(
                f"{name} reads a copy from the GPU with `non_blocking=True` before a synchronization. Call "
                "`torch.cuda.synchronize()`, or wait for an event recorded after the copy."
            )
