"""Host copies of accelerator tensors, and declarations of intended synchronization.

Reading a value of a tensor (`.item()`, `if tensor:`) or indexing with a mask waits until the accelerator has finished
all earlier work. Values that models read from a batch, such as lengths, were in host memory before the batch was
moved: `on_host` returns the original tensor, and `by_host` computes with it and moves the result::

    real = by_host(lambda mask: mask.flatten().nonzero()[:, 0], mask)

A training update that must synchronize declares the reason; any other synchronization in an update is a bug::

    with waits_for_device("which orders of words are good depends on the weights"):
        orders = search(model, batch)

Tests with a simulated accelerator find undeclared synchronization (`bench_authors.testing.pretended`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_reason: ContextVar[str] = ContextVar("_reason", default="")

_NAME = "_bench_host_copy"  # tensor attribute that holds its host copy


def to_device(tensor: Tensor, device: torch.device | str, copy: bool = False) -> Tensor:
    """Move a tensor to a device, keeping its host copy for `on_host`; `copy` always makes a new tensor.

    Transfers from host memory to a GPU are asynchronous.
    """
    host = on_host(tensor) if knows_host_copy(tensor) else None
    if tensor.device.type == "cpu" and str(device).startswith("cuda"):
        moved = tensor.pin_memory().to(device, non_blocking=True)
    else:
        moved = tensor.to(device, copy=copy)
    if moved is not tensor and host is not None:
        remember(moved, host)
    return moved


def on_host(tensor: Tensor) -> Tensor:
    """Return a tensor in host memory: itself, its known host copy, or a new copy, which synchronizes."""
    if tensor.device.type == "cpu":
        return tensor
    return getattr(tensor, _NAME)[1] if knows_host_copy(tensor) else tensor.cpu()


def knows_host_copy(tensor: Tensor) -> bool:
    """Return whether an up-to-date copy of a tensor is in host memory.

    Always false for accelerator tensors created in inference mode, because their changes are not tracked.
    """
    if tensor.device.type == "cpu":
        return True
    identity, _ = getattr(tensor, _NAME, (None, None))
    return identity is not None and identity == _identity(tensor)


def remember(tensor: Tensor, host: Tensor) -> None:
    """Record that `host`, in host memory, is a copy of `tensor`."""
    if tensor.device.type != "cpu":
        setattr(tensor, _NAME, (_identity(tensor), host))


def cached_on_host(tensor: Tensor) -> Tensor:
    """Return a host copy of a tensor that rarely changes, such as a buffer; copied again only after changes."""
    if not knows_host_copy(tensor):
        with waits_for_device("tensors fixed before training are copied once"):
            remember(tensor, tensor.cpu())
    return on_host(tensor)


def by_host(compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply a function to the host copies of tensors and move the result to their device, keeping its host copy."""
    return to_device(compute(*map(on_host, tensors)), tensors[0].device)


def _identity(tensor: Any) -> tuple[int, int] | None:
    """Return an identifier of a tensor's data, which changes if it is modified or copied; None if untracked."""
    if tensor.is_inference():
        return None
    return (0, 0) if tensor.device.type == "meta" else (int(tensor._version), int(tensor.data_ptr()))


@contextmanager
def waits_for_device(reason: str) -> Iterator[None]:
    """Declare why the enclosed code synchronizes on purpose; also usable as a decorator."""
    before = _reason.set(reason)
    try:
        yield
    finally:
        _reason.reset(before)


def reason_to_wait() -> str:
    """Return why the running code may synchronize; empty if it may not."""
    return _reason.get()
