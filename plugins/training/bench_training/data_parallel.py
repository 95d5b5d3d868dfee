"""Data-parallel processes of a training run, which sum gradients and follow common decisions."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn

from bench_core.errors import SuiteError
from bench_training.checkpoint import from_bytes, to_bytes
from bench_training.log import Average

CPU = torch.device("cpu")
COLLECTIVE_TIMEOUT = timedelta(days=7)  #: spans evaluations by process 0; the end of a process is noticed at once


@dataclass(frozen=True)
class DataParallel:
    """The processes of a training run in a `torch.distributed` group, as seen by one of the processes.

    All processes have the same weights. Process 0 evaluates, decides and writes; the others follow. Plain data are
    sent through main memory, so that no process waits for its GPU.
    """

    rank: int
    number: int
    data_group: Any = None  # the process group for plain data; None: the group for gradients

    def add_gradients(self, model: nn.Module, value: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Replace gradients with their sums over all processes; return the sums of `value` and `weight` [].

        Weights without a gradient in this process get the sum over the others; weights without a gradient in every
        process still have no gradient.
        """
        trained = [each for each in model.parameters() if each.requires_grad]
        if any(each.grad is not None and each.grad.is_sparse for each in trained):
            raise SuiteError(
                "sparse gradients are not supported on several devices. Set the model's `sparse: false`."
            )
        has_gradient = torch.tensor([each.grad is not None for each in trained], dtype=torch.int32)
        distributed.all_reduce(has_gradient, group=self.data_group)
        used = [each for each, is_used in zip(trained, has_gradient.tolist(), strict=True) if is_used]
        for dtype in dict.fromkeys(each.dtype for each in used):
            _add_up([each for each in used if each.dtype == dtype])
        sums = torch.stack([value, weight])
        distributed.all_reduce(sums)
        return sums[0], sums[1]

    def decide(self, answers: Sequence[bool]) -> list[bool]:
        """Return the answers of process 0."""
        return [bool(answer) for answer in self.numbers(answers)]

    def numbers(self, values: Sequence[float]) -> list[float]:
        """Return the numbers of process 0; every process must pass the same number of `values`."""
        if self.number == 1:
            return [*values]
        sent = torch.tensor([float(value) for value in values], dtype=torch.float64)
        distributed.broadcast(sent, 0, group=self.data_group)
        return sent.tolist()

    def gather(self, data: Any) -> list[Any]:
        """Return the storable data of every process, in main memory."""
        if self.number == 1:
            return [data]
        content = to_bytes(data)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.number)]
        distributed.all_gather(sizes, torch.tensor([len(content)]), group=self.data_group)
        longest = max(map(int, sizes))
        received = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.number)]
        padded = torch.frombuffer(bytearray(content.ljust(longest, b" ")), dtype=torch.uint8)
        distributed.all_gather(received, padded, group=self.data_group)
        return [from_bytes(bytes(each[: int(size)].numpy()), CPU) for each, size in zip(received, sizes, strict=True)]

    def combine(self, losses: Average) -> Average:
        """Return the mean losses over all processes."""
        if self.number == 1:
            return losses
        average = Average()
        for state in self.gather(losses.state()):
            for name, total in state["totals"].items():
                average.totals[name] = average.totals.get(name, 0) + total
                average.weights[name] = average.weights.get(name, 0) + state["weights"][name]
        return average


ALONE = DataParallel(0, 1)  #: the process of a training run on one device


@torch.no_grad()
def _add_up(weights: Sequence[nn.Parameter]) -> None:
    """Sum the gradients of weights of the same dtype over all processes, as one tensor."""
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in weights]
    whole = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(whole)
    for each, part in zip(weights, torch.split(whole, [each.numel() for each in weights]), strict=True):
        each.grad = part.view_as(each)


def join(rank: int, number: int, place: str, device: torch.device) -> DataParallel:
    """Join the process group of a training run via a rendezvous file; return the group as this process sees it."""
    store = distributed.FileStore(place, number)  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    tracebacks = sys.excepthook
    try:
        distributed.init_process_group(backend, store=store, rank=rank, world_size=number, timeout=COLLECTIVE_TIMEOUT)
    finally:
        sys.excepthook = tracebacks  # torch replaces it permanently to print the rank
    data_group = None if backend == "gloo" else distributed.new_group(backend="gloo", timeout=COLLECTIVE_TIMEOUT)
    return DataParallel(rank, number, data_group)


def leave() -> None:
    """Leave the process group, if there is one."""
    if distributed.is_initialized():
        distributed.destroy_process_group()
