"""What CUDA refuses: tensors on two devices, and types for which it has no kernel."""

import re
from typing import Any

import torch

from bench_authors.testing.pretended.placement import on_gpu, tensors_in

#: Functions that take tensors of several devices, and give each back where it was.
MIXING = {
    "__get__", "__set__", "copy_", "_foreach_copy_", "set_", "result_type", "broadcast_tensors", "expand_as",
    "view_as", "reshape_as", "is_same_size", "backward", "_has_compatible_shallow_copy_type", "is_set_to", "can_cast",
}  # fmt: skip
#: Functions without the exception for numbers: elsewhere a tensor of no dimensions on the CPU goes with any device.
STRICT = re.compile(
    "cat|concat|concatenate|stack|[hvd]stack|embedding|index_(select|add|copy)_?|gather|scatter.*|masked_s.*|.*mm|"
    "matmul|linear|searchsorted|bucketize"
)
#: Functions whose last argument is a value, which may be a number on the CPU, but whose masks and places may not.
FILLING = {"masked_fill", "masked_fill_", "index_fill", "index_fill_"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
PACKING = {"_pack_padded_sequence", "_pad_packed_sequence"}
INDEXING = {"__getitem__", "__setitem__", "index_put_", "index_put"}
#: Products, whose kernels on a GPU know floating-point and complex numbers only.
PRODUCTS = {
    "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "vdot", "inner", "addmm", "addmv", "baddbmm",
    "addbmm", "linear", "einsum", "tensordot", "chain_matmul", "addmm_", "baddbmm_",
}  # fmt: skip
#: Operators that change their first tensor without a name that ends in "_".
IN_PLACE = re.compile("__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift)__")


def check_devices(name: str, args: Any, kwargs: Any, inputs: list[torch.Tensor]) -> None:
    """Raise RuntimeError where CUDA would, for tensors on two devices or of a type that it does not know."""
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
    on_cpu = [one for one in inputs if not on_gpu(one) and (one.dim() or strict) and not one.is_meta]
    if any(map(on_gpu, inputs)):
        if on_cpu or _changes_the_cpu(name, args, kwargs):
            raise two_devices(name)
        _check_product(name, inputs)
    return None


def _changes_the_cpu(name: str, args: Any, kwargs: Any) -> bool:
    """Return whether the result goes into a tensor on the CPU, which may even be a number."""
    in_place = IN_PLACE.fullmatch(name) or (name.endswith("_") and not name.endswith("__"))
    into = [args[0]] if in_place and args and isinstance(args[0], torch.Tensor) else []
    return any(not on_gpu(one) and not one.is_meta for one in [*into, *tensors_in(kwargs.get("out"))])


def _check_product(name: str, inputs: list[torch.Tensor]) -> None:
    kinds = [one.dtype for one in inputs if name in PRODUCTS and not (one.is_floating_point() or one.is_complex())]
    if kinds:
        kind = str(kinds[0]).removeprefix("torch.")
        raise RuntimeError(
            f'"addmm_cuda" not implemented for {kind!r} (in {name}); only floats have products on a GPU'
        )


def _without_sizes(name: str, args: Any, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the inputs of a recurrent layer without the sizes of a packed sequence, which are to be on the CPU."""
    sizes = args[1 if name == "lstm" else 2]
    if not isinstance(sizes, torch.Tensor):
        return inputs
    packed = sizes if name == "lstm" else args[1]
    if on_gpu(packed):
        raise RuntimeError("batch_sizes tensor should be on CPU, but got on cuda:0")
    return [tensor for tensor in inputs if tensor is not packed]


def _check_index(name: str, tensor: torch.Tensor, index: Any, value: Any = None, *more: Any, **settings: Any) -> None:
    """Refuse indices on the GPU of a tensor that is not, and values of another device than the places they go to."""
    places = [one for one in tensors_in(index) if one.dim()]
    if not on_gpu(tensor) and any(map(on_gpu, places)):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    gathered = places or name.startswith("index_put")  # else a view is filled by `copy_`
    if isinstance(value, torch.Tensor) and gathered and value.dim() and on_gpu(value) != on_gpu(tensor):
        raise two_devices(name)


def two_devices(name: str) -> RuntimeError:
    """Return the error that torch raises for tensors on two devices."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (in {name})"
    )
