"""Copies from the GPU to the CPU that nobody has waited for: until then, their numbers are not there."""

from collections.abc import Sequence

import torch

from bench_authors.testing.pretended.placement import on_gpu, storage

#: What may be asked of a tensor before its numbers are there.
HARMLESS = {
    "size", "dim", "numel", "stride", "is_floating_point", "untyped_storage", "data_ptr", "view", "unbind", "__len__",
    "element_size", "storage_offset", "is_complex", "detach", "copy_", "__deepcopy__", "is_contiguous",
}  # fmt: skip


class Transfers:
    """Copies on their way, by the memory that they go to."""

    def __init__(self) -> None:
        self.on_their_way: list[torch.Tensor] = []

    def begin(self, tensor: torch.Tensor) -> None:
        """Let a copy to a tensor on the CPU begin."""
        storage(tensor).arriving = True
        self.on_their_way.append(tensor)

    def arrive(self) -> None:
        """Let all copies be there, as they are once the CPU has waited."""
        for tensor in self.on_their_way:
            storage(tensor).arriving = False
        self.on_their_way.clear()

    def check(self, name: str, inputs: Sequence[torch.Tensor]) -> None:
        """Raise RuntimeError if numbers are read that may not be there."""
        if not self.on_their_way or name in HARMLESS:
            return
        if any(getattr(storage(one), "arriving", False) for one in inputs if not on_gpu(one)):
            raise RuntimeError(
                f"{name} reads what `non_blocking=True` copies from the GPU, and nobody has waited for it. Call "
                "`torch.cuda.synchronize()`, or wait for an event that was recorded after the copy."
            )
