"""Asynchronous copies from the GPU to the CPU, whose values are undefined until a synchronization."""

from collections.abc import Sequence

import torch

from bench_authors.testing.pretended.placement import on_gpu, storage

#: Methods allowed before the values of a tensor have arrived.
HARMLESS = {
    "size", "dim", "numel", "stride", "is_floating_point", "untyped_storage", "data_ptr", "view", "unbind", "__len__",
    "element_size", "storage_offset", "is_complex", "detach", "copy_", "__deepcopy__", "is_contiguous",
}  # fmt: skip


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
