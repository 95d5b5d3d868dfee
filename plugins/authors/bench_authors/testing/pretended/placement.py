"""The location of a tensor (main memory or the simulated GPU), recorded in its storage."""

from collections.abc import Iterator
from typing import Any

import torch

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def on_gpu(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on the simulated GPU."""
    return getattr(storage(tensor), "of_gpu", False)


def device_of(tensor: torch.Tensor) -> torch.device:
    """Return the simulated device of a tensor."""
    return GPU if on_gpu(tensor) else tensor.device


def mark(tensor: torch.Tensor) -> None:
    """Put a tensor on the GPU, unless it is on the meta device."""
    if tensor.device.type == "cpu":
        storage(tensor).of_gpu = True


def storage(tensor: torch.Tensor) -> Any:
    """Return the storage of a tensor, shared by its views; of a sparse tensor, the storage of its values."""
    while _is_wrapped(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return (tensor if tensor.layout is torch.strided else tensor._values()).untyped_storage()


def same_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors share their storage."""
    return bool(storage(first)._cdata == storage(second)._cdata)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, slice):
        yield from tensors_in([value.start, value.stop, value.step])
    elif isinstance(value, dict):
        yield from tensors_in([*value.values()])
