"""Processes that share each batch of a training: sums of their gradients, and decisions that all of them follow."""

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
PATIENCE = timedelta(days=7)  #: while process 0 evaluates; a process that ends is noticed at once


@dataclass(frozen=True)
class Peers:
    """The processes of one training, as seen by one of them, in a process group of `torch.distributed`.

    All hold the same weights. Process 0 evaluates, decides and writes; the others follow it. Plain data go through
    main memory, so that no process waits for its GPU.
    """

    rank: int
    number: int
    talk: Any = None  # the group by which plain data are sent; None is that of gradients

    def add_gradients(self, model: nn.Module, value: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Replace gradients by their sums over all processes; return the sums of two numbers [].

        Weights without a gradient in this process have it from the others; those without one anywhere keep none.
        """
        trained = [each for each in model.parameters() if each.requires_grad]
        if any(each.grad is not None and each.grad.is_sparse for each in trained):
            raise SuiteError("sparse gradients are not shared among devices. Set the model's `sparse: false`.")
        has = torch.tensor([each.grad is not None for each in trained], dtype=torch.int32)
        distributed.all_reduce(has, group=self.talk)
        used = [each for each, one in zip(trained, has.tolist(), strict=True) if one]
        for dtype in dict.fromkeys(each.dtype for each in used):
            _add_up([each for each in used if each.dtype == dtype])
        told = torch.stack([value, weight])
        distributed.all_reduce(told)
        return told[0], told[1]

    def decide(self, answers: Sequence[bool]) -> list[bool]:
        """Return the answers of process 0."""
        return [bool(one) for one in self.numbers(answers)]

    def numbers(self, values: Sequence[float]) -> list[float]:
        """Return the numbers of process 0, as many as this process has."""
        if self.number == 1:
            return [*values]
        told = torch.tensor([float(one) for one in values], dtype=torch.float64)
        distributed.broadcast(told, 0, group=self.talk)
        return told.tolist()

    def gather(self, own: Any) -> list[Any]:
        """Return what each process has, as a checkpoint keeps it, in main memory."""
        if self.number == 1:
            return [own]
        content = to_bytes(own)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.number)]
        distributed.all_gather(sizes, torch.tensor([len(content)]), group=self.talk)
        most = max(map(int, sizes))
        found = [torch.zeros(most, dtype=torch.uint8) for _ in range(self.number)]
        padded = torch.frombuffer(bytearray(content.ljust(most, b" ")), dtype=torch.uint8)
        distributed.all_gather(found, padded, group=self.talk)
        return [from_bytes(bytes(one[: int(size)].numpy()), CPU) for one, size in zip(found, sizes, strict=True)]

    def added(self, losses: Average) -> Average:
        """Return the means of losses over all processes."""
        if self.number == 1:
            return losses
        found = Average()
        for one in self.gather(losses.state()):
            for name, total in one["totals"].items():
                found.totals[name] = found.totals.get(name, 0) + total
                found.weights[name] = found.weights.get(name, 0) + one["weights"][name]
        return found


ALONE = Peers(0, 1)  #: the process of a training that has no others


@torch.no_grad()
def _add_up(weights: Sequence[nn.Parameter]) -> None:
    """Add up the gradients of weights of one dtype over all processes, as one tensor."""
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in weights]
    whole = torch.cat([one.flatten() for one in gradients])
    distributed.all_reduce(whole)
    for each, part in zip(weights, torch.split(whole, [each.numel() for each in weights]), strict=True):
        each.grad = part.view_as(each)


def join(rank: int, number: int, place: str, device: torch.device) -> Peers:
    """Join the process group of a training, found by a file; return it as seen by this process."""
    store = distributed.FileStore(place, number)  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    tracebacks = sys.excepthook
    try:
        distributed.init_process_group(backend, store=store, rank=rank, world_size=number, timeout=PATIENCE)
    finally:
        sys.excepthook = tracebacks  # which torch replaces for good, to print the rank
    talk = None if backend == "gloo" else distributed.new_group(backend="gloo", timeout=PATIENCE)
    return Peers(rank, number, talk)


def leave() -> None:
    """Leave the process group, if there is one."""
    if distributed.is_initialized():
        distributed.destroy_process_group()
