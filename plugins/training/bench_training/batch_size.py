"""`batch_size: auto`: as many rows or tokens as the memory of the device holds, found by computing gradients."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from bench_core.computing.memory_errors import is_out_of_memory
from bench_core.data import Batch
from bench_core.errors import TrainingError
from bench_training.memory import available

MOST = 2**20  #: rows or tokens
FREE = 0.6  #: share of the memory that is free which a batch may take, on a CPU
LOOKED_AT = 8  #: batches of which the one with the longest rows is computed


@dataclass
class BatchSizeSearch:
    """Searches the largest power of two whose batches fit into memory; model and generators stay as they are.

    The batch with the most positions among the first ones of an epoch stands for all. On a CPU, where the system
    would kill the process, what the next size would take is extrapolated from the last.
    """

    model: nn.Module
    device: torch.device
    batches: Callable[[int], Iterator[Batch]]  # of an epoch, of so many rows or tokens
    gradient: Callable[[Batch], object]  # leaves the gradient of a batch in the weights

    def run(self) -> int:
        """Return the size; raise TrainingError if not even the smallest batch fits, or there is none."""
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            found = self._search()
        for name, buffer in self.model.named_buffers():
            buffer.copy_(buffers[name])
        return found

    def _search(self) -> int:
        taken, best = list[int](), 0
        # The moments of an optimizer come with the first update.
        moments = [torch.empty_like(each) for each in self.model.parameters() for _ in range(2)]
        positions = 0
        for size in (2**power for power in range(MOST.bit_length())):
            first = islice(self.batches(size), LOOKED_AT)
            batch = max(first, key=lambda one: one.gold.numel(), default=None)
            if batch is None:
                raise TrainingError("the training split has no batches. Is it empty?")
            if batch.gold.numel() <= positions or self._too_large(taken):
                break
            try:
                taken.append(self._computed(batch))
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                break
            finally:
                self._clear()
            best, positions = size, batch.gold.numel()
        del moments
        if not best:
            raise TrainingError("batch_size auto: not even the smallest batch fits into memory. Use a smaller model.")
        return best

    def _too_large(self, taken: list[int]) -> bool:
        """Return whether the next size would take too much of the memory of a CPU."""
        return self.device.type == "cpu" and bool(taken) and 2 * taken[-1] > _free()

    def _computed(self, batch: Batch) -> int:
        """Compute a gradient; return the bytes that its backward pass needed."""
        self.model.train()
        sizes: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self.gradient(batch)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return sum(sizes.values())

    def _clear(self) -> None:
        self.model.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            with suppress(RuntimeError):
                torch.cuda.empty_cache()


def _free() -> float:
    """Return the bytes that a batch may take on a CPU."""
    return FREE * available(torch.device("cpu"))
