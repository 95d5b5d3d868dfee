"""Mocks of `torch.cuda`: a device, its generator, streams and events."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
import torch.backends.cudnn.rnn
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as group_tensors

from bench_authors.testing.pretended.placement import GPU, mark, on_gpu, tensors_in

Waiting = Callable[[str], None]  # called with the name of a function in which the CPU waits


def cuda_mocks(
    generator: torch.Generator, waiting: Waiting, arrive: Callable[[], None]
) -> Iterator[tuple[Any, str, Any]]:
    """Yield triples of a module or class, the name of one of its functions, and a mock of that function.

    `arrive` is called when the CPU knows, without waiting, that the GPU is done.
    """
    memory = 2**34
    answers = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0, "init": None,
        "get_device_name": "Pretended", "max_memory_allocated": 0, "memory_allocated": 0, "memory_reserved": 0,
        "max_memory_reserved": 0, "reset_peak_memory_stats": None, "is_bf16_supported": True,
        "get_device_capability": (9, 0), "set_device": None, "mem_get_info": (memory, memory),
        "get_device_properties": SimpleNamespace(name="Pretended", total_memory=memory, major=9, minor=0),
    }  # fmt: skip
    for name, answer in answers.items():
        yield torch.cuda, name, lambda *arguments, answer=answer, **settings: answer
    yield torch.cuda, "default_generators", ()  # until the first use of the GPU
    yield torch.optim.Optimizer, "_group_tensors_by_device_and_dtype", staticmethod(_group_by_device)
    yield from _recurrent_layers()
    yield torch.cuda, "synchronize", lambda device=None: waiting("torch.cuda.synchronize")
    yield torch.cuda, "empty_cache", lambda: waiting("torch.cuda.empty_cache")
    yield from _generators(generator)
    yield from _streams(waiting, arrive)


def _group_by_device(tensors: Any, with_indices: bool = False) -> dict[Any, Any]:
    """Group the tensors of an optimizer by simulated device and type; torch itself sees CPU tensors."""
    groups = group_tensors(tensors, with_indices)
    return {(GPU if any(map(on_gpu, tensors_in(group))) else device, kind): (group, indices)
            for (device, kind), (group, indices) in groups.items()}  # fmt: skip


def _recurrent_layers() -> Iterator[tuple[Any, str, Any]]:
    """Yield the mocks for cuDNN, whose recurrent layers have their weights in one storage."""
    yield torch.backends.cudnn, "is_acceptable", lambda tensor: tensor.is_cuda
    yield torch.cuda, "device_of", lambda tensor: nullcontext()
    yield torch, "_use_cudnn_rnn_flatten_weight", lambda: True
    yield torch, "_cudnn_rnn_flatten_weight", _flatten
    yield torch.backends.cudnn.rnn, "get_cudnn_mode", lambda mode: 0


def _flatten(weights: Sequence[torch.Tensor], *layer: Any) -> None:
    """Move the weights of a recurrent layer into one storage, in order."""
    with torch._C.DisableTorchFunction():
        flat = torch.cat([weight.detach().reshape(-1) for weight in weights])
        mark(flat)
        for weight, part in zip(weights, torch.split(flat, [weight.numel() for weight in weights]), strict=True):
            weight.data = part.view(weight.shape)


def _generators(generator: torch.Generator) -> Iterator[tuple[Any, str, Any]]:
    functions = {
        "get_rng_state": lambda device="cuda": generator.get_state(),
        "set_rng_state": lambda state, device="cuda": generator.set_state(state),
        "get_rng_state_all": lambda: [generator.get_state()],
        "set_rng_state_all": lambda states: generator.set_state(states[0]),
        "manual_seed": generator.manual_seed,
        "manual_seed_all": generator.manual_seed,
        "initial_seed": generator.initial_seed,
    }
    for name, mock in functions.items():
        yield torch.cuda, name, mock


def _queues(waiting: Waiting, arrive: Callable[[], None]) -> tuple[type, type]:
    """Return the mocks of an event and a stream."""

    class Queue:
        """A stream or an event, always complete because all computations are immediate."""

        device = GPU

        def __init__(self, *arguments: Any, **settings: Any) -> None: ...
        def query(self) -> bool:
            arrive()
            return True

        def synchronize(self) -> None:
            waiting(f"{type(self).__name__}.synchronize")

        def elapsed_time(self, end: Any) -> float:
            return 1.0

        def is_capturing(self) -> bool:
            return False

        def record_event(self, event: Any = None) -> Any:
            return event or Event()

        record = wait = wait_stream = wait_event = __init__

    class Event(Queue): ...

    class Stream(Queue): ...

    return Event, Stream


def _streams(waiting: Waiting, arrive: Callable[[], None]) -> Iterator[tuple[Any, str, Any]]:
    event, stream = _queues(waiting, arrive)
    default = stream()
    yield torch.cuda, "Event", event
    yield torch.cuda, "Stream", stream
    yield torch.cuda, "stream", nullcontext
    yield torch.cuda, "current_stream", lambda device=None: default
    yield torch.cuda, "default_stream", lambda device=None: default
    yield torch.cuda, "is_current_stream_capturing", lambda: False
    # used by CUDA builds of torch, such as the default build, without a driver
    yield torch.accelerator, "current_stream", lambda device=None: default
    yield torch.accelerator, "current_device_index", lambda: 0
    yield torch.accelerator, "synchronize", lambda device=None: waiting("torch.accelerator.synchronize")
