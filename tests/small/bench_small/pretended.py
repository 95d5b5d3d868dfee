"""A pretended GPU: tensors lie in main memory, but on a device of their own, and operations on two devices fail.

    with Pretended():
        torch.ones(2, device="cuda") + torch.ones(2)  # fails as CUDA makes it fail

A storage is on the GPU if it is marked so; views, parameters and `module.to` follow from that. `torch.Tensor` and all
functions of torch are watched by a function mode: it says where the inputs are, refuses those on two devices where CUDA
does, and marks what comes out. Of CUDA's own generator there is a double, and `torch.cuda` answers as if there was a GPU.

What it does not know: the kernels and their numbers, streams, memory, and operations that autograd or a library calls by
itself, which see tensors on the CPU only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor

#: Functions that take tensors of several devices, and give each back where it was.
MIXING = {
    "__get__", "__set__", "copy_", "_foreach_copy_", "set_", "result_type", "broadcast_tensors", "expand_as",
    "view_as", "reshape_as", "is_same_size", "backward", "_has_compatible_shallow_copy_type", "is_set_to", "can_cast",
}  # fmt: skip
#: Functions without the exception for numbers: elsewhere a tensor of no dimensions on the CPU goes with any device.
STRICT = re.compile(
    "cat|concat|concatenate|stack|[hvd]stack|embedding|index_(select|add|copy|fill)_?|gather|scatter.*|masked_.*|.*mm|"
    "matmul|linear|searchsorted|bucketize"
)
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
RANDOM = re.compile(
    "rand|normal|uniform|bernoulli|multinomial|exponential|geometric|cauchy|poisson|dropout|orthogonal|attention|gumbel"
    "|^random_$|^(lstm|gru|rnn_tanh|rnn_relu)$"
)


@cache
def _is_random(name: str) -> bool:
    return bool(RANDOM.search(name))


class Pretended(TorchFunctionMode):
    """The time in which there is a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch._C.Generator()  # the double of CUDA's
        self.resting = 0  # within autograd, whose operations are torch's own

    def __enter__(self) -> Pretended:
        self.stack = ExitStack()
        for target, name, double in self._doubles():
            self.stack.enter_context(patch.object(target, name, double))
        super().__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)
        self.stack.close()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if self.resting:
            return func(*args, **kwargs)
        if name == "__get__":
            return _attribute(func, args[0])
        if name in ("to", "cuda", "cpu") and isinstance(args[0], torch.Tensor):
            return _moved(name, *args, **kwargs)
        if name == "get_device":
            return 0 if on_gpu(args[0]) else -1
        if name in ("numpy", "__array__") and on_gpu(args[0]):
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory."
            )
        inputs = [*_tensors(args), *_tensors([*kwargs.values()])]
        if name == "tensor":
            inputs = [
                one for one in args[:1] if isinstance(one, torch.Tensor)
            ]  # numbers are read from wherever they are
        asked = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
        if asked is not None and asked.type == "cuda":
            kwargs["device"] = CPU
        there = any(map(on_gpu, inputs))
        if there or name.startswith(("__getitem", "__setitem", "index_put", "_pack")):
            _check(name, args, kwargs, inputs)
        here = asked.type == "cuda" if asked is not None else there
        if _is_random(name):
            with self._generating(here, kwargs.get("generator")):
                found = func(*args, **kwargs)
        else:
            found = func(*args, **kwargs)
        return _marked(name, found, inputs) if here else found

    @contextmanager
    def _generating(self, here: bool, given: Any) -> Iterator[None]:
        """Let random numbers on the GPU come from its own generator, unless another of it is given."""
        if given is not None and (given in Generator.of_gpu) != here:
            due, found = ("cuda", "cpu") if here else ("cpu", "cuda")
            raise RuntimeError(f"Expected a '{due}' device type for generator but found '{found}'")
        if not here or given is not None:
            yield
            return
        default = torch.default_generator
        before = default.get_state()
        default.set_state(self.generator.get_state())
        try:
            yield
        finally:
            self.generator.set_state(default.get_state())
            default.set_state(before)

    def _doubles(self) -> Iterator[tuple[Any, str, Any]]:
        backward = torch.autograd.backward

        def resting(*given: Any, **settings: Any) -> None:
            self.resting += 1
            try:
                backward(*given, **settings)
            finally:
                self.resting -= 1

        yield torch.autograd, "backward", resting
        yield torch, "Generator", Generator
        yield torch.backends.cudnn, "is_acceptable", lambda tensor: False
        answers = {
            "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0, "synchronize": None,
            "get_device_name": "Pretended", "max_memory_allocated": 0, "memory_allocated": 0, "empty_cache": None,
            "reset_peak_memory_stats": None, "is_bf16_supported": True, "get_device_capability": (9, 0),
        }  # fmt: skip
        for name, answer in answers.items():
            yield torch.cuda, name, lambda *given, answer=answer, **settings: answer
        generators = {
            "get_rng_state": lambda device="cuda": self.generator.get_state(),
            "set_rng_state": lambda state, device="cuda": self.generator.set_state(state),
            "get_rng_state_all": lambda: [self.generator.get_state()],
            "set_rng_state_all": lambda states: self.generator.set_state(states[0]),
            "manual_seed": self.generator.manual_seed,
            "manual_seed_all": self.generator.manual_seed,
        }
        for name, double in generators.items():
            yield torch.cuda, name, double


class Generator(torch._C.Generator):
    """torch's generator, which may be one of the GPU."""

    of_gpu: set[Any] = set()

    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls)
        if torch.device(device).type == "cuda":
            cls.of_gpu.add(made)
        return made

    @property
    def device(self) -> torch.device:
        return GPU if self in self.of_gpu else CPU


def on_gpu(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on the pretended GPU."""
    return getattr(_storage(tensor), "of_gpu", False)


def _storage(tensor: torch.Tensor) -> Any:
    while _is_wrapped(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return (tensor if tensor.layout is torch.strided else tensor._values()).untyped_storage()


def _mark(tensor: torch.Tensor) -> None:
    if tensor.device.type == "cpu":  # and not meta
        _storage(tensor).of_gpu = True


def _attribute(func: Any, tensor: torch.Tensor) -> Any:
    """Return an attribute of a tensor; if it is on the GPU, so are its gradient and whatever is of it."""
    asked, found = func.__self__, func(tensor)
    if not isinstance(found, (bool, torch.device, torch.Tensor)) or not on_gpu(tensor):
        return found
    if asked is torch.Tensor.device:
        return GPU
    if asked in (torch.Tensor.is_cuda, torch.Tensor.is_cpu):
        return asked is torch.Tensor.is_cuda
    if isinstance(found, torch.Tensor):
        _mark(found)
    return found


def _moved(name: str, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Do what `to`, `cpu` and `cuda` do: the tensor itself where nothing changes, else a copy on its device."""
    target = GPU if name == "cuda" else CPU if name == "cpu" else None
    if name == "to" and args and isinstance(args[0], torch.Tensor):
        args, kwargs = args[1:], {"device": _device(args[0]), "dtype": args[0].dtype, **kwargs}
    copied = kwargs.pop("copy", False)
    device, dtype, *_, form = torch._C._nn._parse_to(*args, **kwargs) if name == "to" else (target, None, None)
    device = torch.device(device) if device is not None else _device(tensor)
    if device.type not in ("cpu", "cuda"):
        return tensor.to(device, dtype)
    stays = (device.type == "cuda") == on_gpu(tensor)
    found = tensor.to(dtype=dtype or tensor.dtype, memory_format=form or torch.preserve_format)
    if copied or (found is tensor and not stays):
        found = tensor.clone()
    if device.type == "cuda":
        _mark(found)
    return found


def _device(tensor: torch.Tensor) -> torch.device:
    return GPU if on_gpu(tensor) else tensor.device


def _check(name: str, args: Any, kwargs: Any, inputs: list[torch.Tensor]) -> None:
    """Raise RuntimeError where CUDA would, for tensors on two devices."""
    if name in MIXING:
        return None
    if name in ("__getitem__", "__setitem__", "index_put_", "index_put"):
        return _check_index(name, *args, **kwargs)
    if name == "_pack_padded_sequence" and on_gpu(args[1]):
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor")
    if name in ("_pack_padded_sequence", "_pad_packed_sequence"):
        return None
    if name in RECURRENT and isinstance(
        args[1 if name == "lstm" else 2], torch.Tensor
    ):  # packed: args[1] are its sizes
        if on_gpu(args[1]):
            raise RuntimeError("batch_sizes tensor should be on CPU, but got on cuda:0")
        inputs = [tensor for tensor in inputs if tensor is not args[1]]
    strict = STRICT.fullmatch(name)
    there = [tensor for tensor in inputs if not on_gpu(tensor) and (tensor.dim() or strict) and not tensor.is_meta]
    if there and any(map(on_gpu, inputs)):
        raise _two_devices(name)
    return None


def _check_index(name: str, tensor: torch.Tensor, index: Any, value: Any = None, *more: Any, **settings: Any) -> None:
    """Refuse indices on the GPU of a tensor that is not, and values of another device than the places they go to."""
    places = [one for one in _tensors(index) if one.dim()]
    if not on_gpu(tensor) and any(map(on_gpu, places)):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    gathered = places or name.startswith("index_put")  # else a view is filled by `copy_`
    if isinstance(value, torch.Tensor) and gathered and value.dim() and on_gpu(value) != on_gpu(tensor):
        raise _two_devices(name)


def _two_devices(name: str) -> RuntimeError:
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (in {name})"
    )


def _marked(name: str, found: Any, inputs: list[torch.Tensor]) -> Any:
    """Return what a function made on the GPU, marked; a tensor of the CPU that it gave back is copied."""
    if name in MIXING:
        return found
    if name in ("_pack_padded_sequence", "_pad_packed_sequence"):  # sizes and lengths stay
        _mark(found[0])
        return found
    if name == "__iter__":
        found = [*found]
        _marked("unbind", found, inputs)
        return iter(found)
    if isinstance(found, torch.Tensor) and any(_same(found, one) for one in inputs if not on_gpu(one)):
        found = found.clone()
    for tensor in _tensors(found):
        _mark(tensor)
    return found


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return _storage(one)._cdata == _storage(other)._cdata


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors([*value.values()])
