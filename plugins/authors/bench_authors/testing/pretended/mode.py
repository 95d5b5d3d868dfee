"""The mode in which there is a GPU: it watches all functions of torch, and says where their results are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

from bench_authors.testing.pretended.cuda_functions import doubles
from bench_authors.testing.pretended.device_rules import INDEXING, MIXING, PACKING, RECURRENT, check_devices
from bench_authors.testing.pretended.generators import Generator, drawing, is_random
from bench_authors.testing.pretended.moves import MOVES, Move, attribute, pinned
from bench_authors.testing.pretended.placement import CPU, mark, on_gpu, same_memory, tensors_in
from bench_authors.testing.pretended.synchronisations import computing, record, recording
from bench_authors.testing.pretended.transfers import Transfers
from bench_authors.testing.pretended.waits import CHECKED_ON_CPU, wait_of

#: Functions that make tensors of numbers alone, on the CPU unless a device is named.
CREATING = {
    "full", "arange", "linspace", "logspace", "zeros", "ones", "empty", "eye", "rand", "randn", "randint", "randperm",
    "scalar_tensor", "range",
}  # fmt: skip
#: Methods of a tensor on whose device they make another; their sizes are numbers.
NEW = {"new_zeros", "new_ones", "new_empty", "new_full"}
TO_NUMPY = {"numpy", "__array__", "__dlpack__"}


class Pretended(TorchFunctionMode):
    """The time in which there is a GPU."""

    is_here: ClassVar[bool] = False  # whether that is now

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch._C.Generator()  # the double of CUDA's
        self.transfers = Transfers()  # to the CPU, that nobody has waited for
        self.resting = 0  # within autograd, whose operations are torch's own

    def __enter__(self) -> Pretended:
        self.stack = ExitStack()
        for target, name, double in self._doubles():
            self.stack.enter_context(patch.object(target, name, double))
        self.stack.enter_context(patch.object(Pretended, "is_here", True))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)  # type: ignore[no-untyped-call]
        self.stack.close()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if self.resting:
            return func(*args, **kwargs)
        if name == "__get__":
            return attribute(func, args[0])
        if name in ("is_pinned", "pin_memory"):
            return pinned(name, args[0])
        if name == "get_device":
            return 0 if on_gpu(args[0]) else -1
        inputs = [*tensors_in(args), *tensors_in(kwargs)]
        there = any(map(on_gpu, inputs))
        if name in TO_NUMPY and there:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory."
            )
        wait = wait_of(name, args, kwargs) if there or kwargs.get("device") is not None or name in MOVES else None
        if wait:
            self.waiting(wait)
        self.transfers.check(name, inputs)
        if name in MOVES and isinstance(args[0], torch.Tensor):
            return self._moved(Move.asked(name, *args, **kwargs))
        if not (there and recording()):
            return self._computed(func, name, args, kwargs, inputs)
        with computing(inputs, waited=wait is not None or name in CHECKED_ON_CPU):
            return self._computed(func, name, args, kwargs, inputs)

    def waiting(self, operation: str) -> None:
        """Record that the CPU waits for the GPU, which has then done all that it was given to do."""
        record(operation)
        self.transfers.arrive()

    def _moved(self, move: Move) -> torch.Tensor:
        found = move.result()
        if not move.stays and not move.waits and move.device.type == "cpu":
            self.transfers.begin(found)
        return found

    def _computed(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], inputs: list[torch.Tensor]) -> Any:
        """Return what a function computes, on the device on which it would be."""
        if name in ("tensor", "as_tensor"):  # numbers are read from wherever they are
            inputs = [one for one in args[:1] if isinstance(one, torch.Tensor)]
        elif name in CREATING:
            inputs = [*tensors_in(kwargs.get("out"))]
        elif name in NEW or name == "__deepcopy__":  # what else it is given are copies that exist
            inputs = [args[0]]
        asked = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
        if asked is not None and asked.type == "cuda":
            kwargs["device"] = CPU
        there = any(map(on_gpu, inputs))
        if there or name in INDEXING | PACKING:
            check_devices(name, args, kwargs, inputs)
        here = asked.type == "cuda" if asked is not None else there
        if is_random(name):
            with drawing(here, kwargs.get("generator"), self.generator):
                found = func(*args, **kwargs)
        else:
            found = func(*args, **kwargs)
        if name in RECURRENT and there and torch.backends.cudnn.enabled:
            _refuse_gradients(found, args)
        if here:
            torch.cuda.default_generators = (self.generator,)  # as CUDA does at first use
        if name == "copy_" and kwargs.get("non_blocking") and there and not on_gpu(args[0]):
            self.transfers.begin(args[0])
        return _marked(name, found, inputs) if here else found

    def _doubles(self) -> Iterator[tuple[Any, str, Any]]:
        backward = torch.autograd.backward

        def resting(*given: Any, **settings: Any) -> None:
            self.resting += 1
            try:
                with computing(()):
                    backward(*given, **settings)
            finally:
                self.resting -= 1

        yield torch.autograd, "backward", resting
        yield torch, "Generator", Generator
        yield from doubles(self.generator, self.waiting, self.transfers.arrive)


def _refuse_gradients(found: tuple[torch.Tensor, ...], args: Sequence[Any]) -> None:
    """Fail where gradients of a recurrent layer are asked for that was in evaluation mode."""
    is_packed = isinstance(args[3], tuple | list)  # (input, sizes, states, weights, ...)
    is_training = args[7 if is_packed else 6]

    def refuse(gradient: torch.Tensor) -> None:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")

    if not is_training and found[0].requires_grad:
        found[0].register_hook(refuse)  # type: ignore[no-untyped-call]


def _marked(name: str, found: Any, inputs: list[torch.Tensor]) -> Any:
    """Return what a function made on the GPU, marked; a tensor of the CPU that it gave back is copied."""
    if name in MIXING:
        return found
    if name in PACKING:  # sizes and lengths stay
        mark(found[0])
        return found
    if name == "__iter__":
        found = [*found]
        _marked("unbind", found, inputs)
        return iter(found)
    if isinstance(found, torch.Tensor) and any(same_memory(found, one) for one in inputs if not on_gpu(one)):
        found = found.clone()
    for tensor in tensors_in(found):
        mark(tensor)
    return found
