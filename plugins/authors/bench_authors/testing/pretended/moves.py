"""Tensors that move between main memory and the pretended GPU, and what they say about where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from bench_authors.testing.pretended.placement import CPU, GPU, device_of, mark, on_gpu, storage

MOVES = {"to", "cuda", "cpu", "type_as"}


@dataclass(frozen=True)
class Move:
    """What `to`, `cuda`, `cpu` or `type_as` are asked for."""

    tensor: torch.Tensor
    device: torch.device
    dtype: torch.dtype
    form: torch.memory_format = torch.preserve_format
    non_blocking: bool = False
    copy: bool = False

    @classmethod
    def asked(cls, name: str, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Move:
        """Read the arguments of a method of tensors."""
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
        """Return whether the tensor is on this device already."""
        return (self.device.type == "cuda") == on_gpu(self.tensor)

    @property
    def waits(self) -> bool:
        """Return whether the CPU waits for the copy."""
        return not self.stays and self.device.type in ("cpu", "cuda") and not self.non_blocking

    def result(self) -> torch.Tensor:
        """Return the tensor itself where nothing changes, else a copy on its device."""
        if self.device.type not in ("cpu", "cuda"):
            return self.tensor.to(self.device, self.dtype)
        found = self.tensor.to(dtype=self.dtype, memory_format=self.form)
        if self.copy or (found is self.tensor and not self.stays):
            found = self.tensor.to(dtype=self.dtype, memory_format=self.form, copy=True)
        if self.device.type == "cuda":
            mark(found)
        return found


def pinned(name: str, tensor: torch.Tensor) -> Any:
    """Do what `pin_memory` and `is_pinned` do where there is a GPU."""
    is_pinned = getattr(
        storage(tensor), "pinned", False
    )  # in pages that stay there, from which a GPU reads by itself
    if name == "is_pinned":
        return is_pinned
    if on_gpu(tensor):
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    found = tensor if is_pinned else tensor.clone()
    storage(found).pinned = True
    return found


def attribute(func: Any, tensor: torch.Tensor) -> Any:
    """Return an attribute of a tensor; if it is on the GPU, so are its gradient and whatever is of it."""
    asked, found = func.__self__, func(tensor)
    if not isinstance(found, bool | torch.device | torch.Tensor) or not on_gpu(tensor):
        return found
    if asked is torch.Tensor.device:
        return GPU
    if asked in (torch.Tensor.is_cuda, torch.Tensor.is_cpu):
        return asked is torch.Tensor.is_cuda
    if isinstance(found, torch.Tensor):
        mark(found)
    return found
