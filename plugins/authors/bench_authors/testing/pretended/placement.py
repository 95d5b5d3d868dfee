"""Where a tensor is: in main memory, or on the pretended GPU, as its storage says."""

from collections.abc import Iterator
from typing import Any

import torch

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def on_gpu(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on the pretended GPU."""
    return getattr(storage(tensor), "of_gpu", False)


def device_of(tensor: torch.Tensor) -> torch.device:
    """Return the device that a tensor is said to be on."""
    return GPU if on_gpu(tensor) else tensor.device


def mark(tensor: torch.Tensor) -> None:
    """Put a tensor on the GPU, unless it is on the meta device."""
    if tensor.device.type == "cpu":
        storage(tensor).of_gpu = True


def storage(tensor: torch.Tensor) -> Any:
    """Return the memory of a tensor, that of the values of a sparse one; views share it."""
    while _is_wrapped(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return (tensor if tensor.layout is torch.strided else tensor._values()).untyped_storage()


def same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors share their memory."""
    return bool(storage(one)._cdata == storage(other)._cdata)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)
    elif isinstance(value, slice):
        yield from tensors_in([value.start, value.stop, value.step])
    elif isinstance(value, dict):
        yield from tensors_in([*value.values()])
