"""Copies in main memory of tensors on an accelerator, and the places where code waits for one on purpose.

Reading a number of a tensor (`.item()`, `if tensor:`), or using a mask as an index, waits until the accelerator has
computed all that came before. What a model needs to know of a batch, such as how many tokens are real, was in main
memory before it was moved; `on_host` returns that, and `by_host` computes with it and moves the result::

    real = by_host(lambda mask: mask.flatten().nonzero()[:, 0], mask)

Where an update of a training has to wait, it says why, since all other waiting there is a mistake::

    with waits_for_device("which orders of words are good depends on the weights"):
        orders = search(model, batch)

Tests on a pretended accelerator find all such places (`bench_authors.testing.pretended`).
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

_NAME = "_bench_host_copy"  # the attribute of a tensor that has its copy in main memory


def to_device(tensor: Tensor, device: torch.device | str, copy: bool = False) -> Tensor:
    """Return a tensor on a device, from which `on_host` leads back; the tensor itself if it is there, unless `copy`.

    From main memory to a GPU it is copied without waiting for what that computes.
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
    """Return a tensor in main memory: itself, the one that it is a copy of, or else a copy, for which this waits."""
    if tensor.device.type == "cpu":
        return tensor
    if knows_host_copy(tensor):
        found: Tensor = getattr(tensor, _NAME)[1]
        return found
    return tensor.cpu()


def knows_host_copy(tensor: Tensor) -> bool:
    """Return whether the numbers of a tensor are in main memory, and have not changed since they were copied.

    Of tensors made in inference mode that is never known, since their changes are not counted.
    """
    if tensor.device.type == "cpu":
        return True
    identity, _ = getattr(tensor, _NAME, (None, None))
    return identity is not None and identity == _identity(tensor)


def remember(tensor: Tensor, host: Tensor) -> None:
    """Say that `host`, in main memory, has the numbers of `tensor`."""
    if tensor.device.type != "cpu":
        setattr(tensor, _NAME, (_identity(tensor), host))


def kept_on_host(tensor: Tensor) -> Tensor:
    """Return a tensor in main memory that rarely changes, such as a buffer; copied once for all its changes."""
    if not knows_host_copy(tensor):
        with waits_for_device("what is fixed before the training is copied once"):
            remember(tensor, tensor.cpu())
    return on_host(tensor)


def by_host(compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Return what is computed of tensors in main memory, on their device, with its copy in main memory."""
    return to_device(compute(*map(on_host, tensors)), tensors[0].device)


def _identity(tensor: Any) -> tuple[int, int] | None:
    """Return what a tensor has no more once it is changed in place, or is a copy of itself."""
    if tensor.is_inference() or tensor.device.type == "meta":
        return None if tensor.is_inference() else (0, 0)
    return int(tensor._version), int(tensor.data_ptr())


@contextmanager
def waits_for_device(reason: str) -> Iterator[None]:
    """Say that what is within waits for the accelerator on purpose, and why; also a decorator of functions."""
    before = _reason.set(reason)
    try:
        yield
    finally:
        _reason.reset(before)


def reason_to_wait() -> str:
    """Return why the code that runs may wait for the accelerator; the empty string if nothing says so."""
    return _reason.get()
