"""Restrictions of CUDA: tensors on two devices, and types without kernels."""

import re
from typing import Any

import torch

from bench_authors.testing.pretended.placement import on_gpu, tensors_in

#: Functions that accept tensors on several devices, and leave each tensor on its device.
MIXING = {
    "__get__", "__set__", "copy_", "_foreach_copy_", "set_", "result_type", "broadcast_tensors", "expand_as",
    "view_as", "reshape_as", "is_same_size", "backward", "_has_compatible_shallow_copy_type", "is_set_to", "can_cast",
}  # fmt: skip
#: Functions that reject zero-dimensional CPU tensors, which other functions combine with tensors on any device.
STRICT = re.compile(
    "cat|concat|concatenate|stack|[hvd]stack|embedding|index_(select|add|copy)_?|gather|scatter.*|masked_s.*|.*mm|"
    "matmul|linear|searchsorted|bucketize"
)
#: Functions whose last argument may be a zero-dimensional CPU tensor, unlike their masks and indices.
FILLING = {"masked_fill", "masked_fill_", "index_fill", "index_fill_"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
PACKING = {"_pack_padded_sequence", "_pad_packed_sequence"}
INDEXING = {"__getitem__", "__setitem__", "index_put_", "index_put"}
#: Products, whose GPU kernels support only floating-point and complex numbers.
PRODUCTS = {
    "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "vdot", "inner", "addmm", "addmv", "baddbmm",
    "addbmm", "linear", "einsum", "tensordot", "chain_matmul", "addmm_", "baddbmm_",
}  # fmt: skip
#: In-place operators, whose names do not end in "_".
IN_PLACE = re.compile("__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift)__")


def check_devices(name: str, args: Any, kwargs: Any, inputs: list[torch.Tensor]) -> None:
    """Raise RuntimeError, as CUDA does, for tensors on two devices or of unsupported types."""
    if name in MIXING:
        return None
    if name in INDEXING:
        return _check_index(name, *args, **kwargs)
    if name == "_pack_padded_sequence" and on_gpu(args[1]):
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor")
    if name in PACKING:
        return None
    if name in RECURRENT:
        inputs = _without_sizes(name, args, inputs)
    if name in FILLING:
        inputs = [args[0], *tensors_in(args[1:-1])] if len(args) > 2 else inputs
    strict = STRICT.fullmatch(name) or name in FILLING
    on_cpu = [tensor for tensor in inputs if not on_gpu(tensor) and (tensor.dim() or strict) and not tensor.is_meta]
    if any(map(on_gpu, inputs)):
        if on_cpu or _changes_the_cpu(name, args, kwargs):
            raise two_devices(name)
        _check_product(name, inputs)
    return None


def _changes_the_cpu(name: str, args: Any, kwargs: Any) -> bool:
    """Return whether the result is written to a CPU tensor, even if the tensor is zero-dimensional."""
    in_place = IN_PLACE.fullmatch(name) or (name.endswith("_") and not name.endswith("__"))
    targets = [args[0]] if in_place and args and isinstance(args[0], torch.Tensor) else []
    return any(not on_gpu(target) and not target.is_meta for target in [*targets, *tensors_in(kwargs.get("out"))])


def _check_product(name: str, inputs: list[torch.Tensor]) -> None:
    dtypes = (tensor.dtype for tensor in inputs if not (tensor.is_floating_point() or tensor.is_complex()))
    if name in PRODUCTS and (first := next(dtypes, None)):
        dtype = str(first).removeprefix("torch.")
        raise RuntimeError(
            f'"addmm_cuda" not implemented for {dtype!r} (in {name}); GPUs support products of floats only'
        )


def _without_sizes(name: str, args: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the inputs of a recurrent layer without the sizes of a packed sequence, which must be on the CPU."""
    sizes = args[1 if name == "lstm" else 2]
    if not isinstance(sizes, torch.Tensor):
        return inputs
    packed = sizes if name == "lstm" else args[1]
    if on_gpu(packed):
        raise RuntimeError("batch_sizes tensor should be on CPU, but got on cuda:0")
    return [tensor for tensor in inputs if tensor is not packed]


def _check_index(name: str, tensor: torch.Tensor, index: Any, value: Any = None, *more: Any, **settings: Any) -> None:
    """Raise RuntimeError for GPU indices of a CPU tensor, and for values on a different device than their target."""
    indices = [part for part in tensors_in(index) if part.dim()]
    if not on_gpu(tensor) and any(map(on_gpu, indices)):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    is_scatter = indices or name.startswith("index_put")  # otherwise `copy_` fills a view
    if isinstance(value, torch.Tensor) and is_scatter and value.dim() and on_gpu(value) != on_gpu(tensor):
        raise two_devices(name)


def two_devices(name: str) -> RuntimeError:
    """Return the error of torch for tensors on two devices."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (in {name})"
    )
