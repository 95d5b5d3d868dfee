"""The mode that simulates a GPU: it intercepts all functions of torch and tracks the devices of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

from bench_authors.testing.pretended.cuda_functions import cuda_mocks
from bench_authors.testing.pretended.device_rules import INDEXING, MIXING, PACKING, RECURRENT, check_devices
from bench_authors.testing.pretended.generators import Generator, is_random, random_source
from bench_authors.testing.pretended.moves import MOVES, Move, Transfers, attribute, pin
from bench_authors.testing.pretended.placement import CPU, mark, on_gpu, same_memory, tensors_in
from bench_authors.testing.pretended.synchronisations import computing, record, recording
from bench_authors.testing.pretended.waits import CHECKED_ON_CPU, wait_of

#: Functions that create tensors from numbers, on the CPU by default.
CREATING = {
    "full", "arange", "linspace", "logspace", "zeros", "ones", "empty", "eye", "rand", "randn", "randint", "randperm",
    "scalar_tensor", "range",
}  # fmt: skip
#: Methods that create a tensor on the device of another tensor; sizes are numbers.
NEW = {"new_zeros", "new_ones", "new_empty", "new_full"}
TO_NUMPY = {"numpy", "__array__", "__dlpack__"}


class Pretended(TorchFunctionMode):
    """A context with a simulated GPU."""

    is_active: ClassVar[bool] = False  # whether the context is active

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch._C.Generator()  # replaces the CUDA generator
        self.transfers = Transfers()  # copies to the CPU that are not synchronized yet
        self.suspended = 0  # depth of calls of autograd, whose operations are internal

    def __enter__(self) -> Pretended:
        self.stack = ExitStack()
        for target, name, mock in self._mocks():
            self.stack.enter_context(patch.object(target, name, mock))
        self.stack.enter_context(patch.object(Pretended, "is_active", True))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)  # type: ignore[no-untyped-call]
        self.stack.close()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if self.suspended:
            return func(*args, **kwargs)
        if name == "__get__":
            return attribute(func, args[0])
        if name in ("is_pinned", "pin_memory"):
            return pin(name, args[0])
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
            return self._move(Move.parse(name, *args, **kwargs))
        if not (there and recording()):
            return self._call(func, name, args, kwargs, inputs)
        with computing(inputs, waited=wait is not None or name in CHECKED_ON_CPU):
            return self._call(func, name, args, kwargs, inputs)

    def waiting(self, operation: str) -> None:
        """Record that the CPU waits until the GPU has finished all work."""
        record(operation)
        self.transfers.arrive()

    def _move(self, move: Move) -> torch.Tensor:
        result = move.result()
        if not move.stays and not move.waits and move.device.type == "cpu":
            self.transfers.begin(result)
        return result

    def _call(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], inputs: list[torch.Tensor]) -> Any:
        """Call a function and mark its result if it would be on the GPU."""
        if name in ("tensor", "as_tensor"):  # reads numbers from any device
            inputs = [data for data in args[:1] if isinstance(data, torch.Tensor)]
        elif name in CREATING:
            inputs = [*tensors_in(kwargs.get("out"))]
        elif name in NEW or name == "__deepcopy__":  # other arguments are existing copies
            inputs = [args[0]]
        device = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
        if device is not None and device.type == "cuda":
            kwargs["device"] = CPU
        there = any(map(on_gpu, inputs))
        if there or name in INDEXING | PACKING:
            check_devices(name, args, kwargs, inputs)
        here = device.type == "cuda" if device is not None else there
        if is_random(name):
            with random_source(here, kwargs.get("generator"), self.generator):
                result = func(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        if name in RECURRENT and there and torch.backends.cudnn.enabled:
            _refuse_gradients(result, args)
        if here:
            torch.cuda.default_generators = (self.generator,)  # as in CUDA after the first use
        if name == "copy_" and kwargs.get("non_blocking") and there and not on_gpu(args[0]):
            self.transfers.begin(args[0])
        return _mark_result(name, result, inputs) if here else result

    def _mocks(self) -> Iterator[tuple[Any, str, Any]]:
        backward = torch.autograd.backward

        def untracked_backward(*arguments: Any, **settings: Any) -> None:
            self.suspended += 1
            try:
                with computing(()):
                    backward(*arguments, **settings)
            finally:
                self.suspended -= 1

        yield torch.autograd, "backward", untracked_backward
        yield torch, "Generator", Generator
        yield from cuda_mocks(self.generator, self.waiting, self.transfers.arrive)


def _refuse_gradients(outputs: tuple[torch.Tensor, ...], args: Sequence[Any]) -> None:
    """Make the backward pass of a recurrent layer in evaluation mode fail."""
    is_packed = isinstance(args[3], tuple | list)  # (input, sizes, states, weights, ...)
    is_training = args[7 if is_packed else 6]

    def refuse(gradient: torch.Tensor) -> None:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")

    if not is_training and outputs[0].requires_grad:
        outputs[0].register_hook(refuse)  # type: ignore[no-untyped-call]


def _mark_result(name: str, result: Any, inputs: list[torch.Tensor]) -> Any:
    """Mark the result of a function as on the GPU; a returned CPU input is copied first."""
    if name in MIXING:
        return result
    if name in PACKING:  # sizes and lengths stay on the CPU
        mark(result[0])
        return result
    if name == "__iter__":
        result = [*result]
        _mark_result("unbind", result, inputs)
        return iter(result)
    if isinstance(result, torch.Tensor) and any(
        same_memory(result, source) for source in inputs if not on_gpu(source)
    ):
        result = result.clone()
    for tensor in tensors_in(result):
        mark(tensor)
    return result
