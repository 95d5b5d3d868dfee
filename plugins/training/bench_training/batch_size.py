"""`batch_size: auto`: the maximum rows or tokens that fit in device memory, found by computing gradients."""

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

MAX_BATCH_SIZE = 2**20  #: rows or tokens
MAX_MEMORY_SHARE = 0.6  #: share of the available memory that a batch may use on a CPU
MAX_CANDIDATES = 8  #: number of batches from which the largest is chosen


@dataclass
class BatchSizeSearch:
    """Searches for the largest power of two whose batches fit in memory; restores model and generators.

    Of the first batches of an epoch, only the batch with the most positions is computed. On a CPU, where exhausting
    memory would kill the process, the memory for the next size is extrapolated from the last size.
    """

    model: nn.Module
    device: torch.device
    batches: Callable[[int], Iterator[Batch]]  # maps rows or tokens per batch to an epoch
    gradient: Callable[[Batch], object]  # stores a batch's gradient in the weights

    def run(self) -> int:
        """Return the size; raise TrainingError if even the smallest batch does not fit or the split is empty."""
        buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            size = self._search()
        for name, buffer in self.model.named_buffers():
            buffer.copy_(buffers[name])
        return size

    def _search(self) -> int:
        used, best = list[int](), 0
        # Reserve the memory of optimizer moments, which are allocated at the first update.
        moments = [torch.empty_like(each) for each in self.model.parameters() for _ in range(2)]
        positions = 0
        for size in (2**power for power in range(MAX_BATCH_SIZE.bit_length())):
            first = islice(self.batches(size), MAX_CANDIDATES)
            batch = max(first, key=lambda batch: batch.gold.numel(), default=None)
            if batch is None:
                raise TrainingError("the training split has no batches. Is it empty?")
            if batch.gold.numel() <= positions or self._too_large(used):
                break
            try:
                used.append(self._backward_bytes(batch))
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                break
            finally:
                self._clear()
            best, positions = size, batch.gold.numel()
        del moments
        if not best:
            raise TrainingError("batch_size auto: not even the smallest batch fits in memory. Use a smaller model.")
        return best

    def _too_large(self, used: list[int]) -> bool:
        """Return whether the next size would need too much CPU memory."""
        return self.device.type == "cpu" and bool(used) and 2 * used[-1] > _max_batch_bytes()

    def _backward_bytes(self, batch: Batch) -> int:
        """Compute a gradient; return the bytes saved for its backward pass."""
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


def _max_batch_bytes() -> float:
    """Return the bytes that a batch may use on a CPU."""
    return MAX_MEMORY_SHARE * available(torch.device("cpu"))
