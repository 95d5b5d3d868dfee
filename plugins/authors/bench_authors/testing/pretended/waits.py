"""Determines which operations make the CPU wait until the GPU has finished all work.

An operation waits if its result is a Python number, if the size of its result depends on values on the GPU, or if it
copies between main memory and the GPU without `non_blocking`.
"""

from typing import Any

import torch

from bench_authors.testing.pretended.moves import MOVES, Move
from bench_authors.testing.pretended.placement import on_gpu, tensors_in

#: Functions that convert tensor values to Python values.
READING_VALUES = {
    "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "__repr__",
    "__format__", "is_nonzero", "equal", "allclose",
}  # fmt: skip
#: Functions whose results have a size that depends on values.
DATA_DEPENDENT = {
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "combinations", "coalesce",
    "to_sparse",
}  # fmt: skip
#: Functions that read values to check arguments or results.
CHECKING_VALUES = {
    "multinomial", "histc", "histogram", "ctc_loss", "cholesky", "inv", "solve", "svd", "eigh", "quantile",
}  # fmt: skip
#: Functions that copy Python lists or CPU data to the device.
COPYING = {"tensor", "as_tensor", "new_tensor", "asarray"}
#: Functions whose gradients search for zeros among the values.
WAITING_BACKWARD = {"prod", "cumprod"}
#: Functions that check values on a CPU, but not on a GPU.
CHECKED_ON_CPU = {"one_hot"}
#: Internal operations and gradients, by ATen name.
ATEN = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount",
    "equal", "histc", "_linalg_check_errors", "is_nonzero",
}  # fmt: skip


def wait_of(name: str, args: Any, kwargs: Any) -> str | None:
    """Describe how a call of a torch function makes the CPU wait, or return None."""
    if name in MOVES and isinstance(args[0], torch.Tensor):
        move = Move.parse(name, *args, **kwargs)
        return _copy(move.device.type == "cuda") if move.waits else None
    if name == "copy_":
        return _wait_of_copy(*args, **kwargs)
    if name in ("__getitem__", "__setitem__", "index_put_", "index_put"):
        return _wait_of_index(name, *args, **kwargs)
    if name in COPYING:
        return _wait_of_creation(name, args, kwargs)
    inputs = [*tensors_in(args), *tensors_in(kwargs)]
    if not any(map(on_gpu, inputs)):
        return None
    if name in READING_VALUES | DATA_DEPENDENT | CHECKING_VALUES:
        return name
    if name in WAITING_BACKWARD and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        return f"the gradient of {name}"
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        repeats = kwargs.get("repeats", args[1] if len(args) > 1 else args[0])
        return "repeat_interleave without output_size" if isinstance(repeats, torch.Tensor) else None
    if name == "where" and len(args) == 1 and not {"input", "self", "other"} & {*kwargs}:
        return "where of a condition alone"
    if name == "one_hot" and kwargs.get("num_classes", args[1] if len(args) > 1 else -1) == -1:
        return "one_hot without num_classes"
    return None


def _copy(to_gpu: bool) -> str:
    return "a copy to the GPU" if to_gpu else "a copy to the CPU"


def _wait_of_copy(to: torch.Tensor, source: Any, non_blocking: bool = False) -> str | None:
    if not isinstance(source, torch.Tensor) or source.is_meta or to.is_meta or non_blocking:
        return None
    return _copy(on_gpu(to)) if on_gpu(to) != on_gpu(source) else None


def _wait_of_creation(name: str, args: Any, kwargs: Any) -> str | None:
    """Describe how the creation of a tensor waits: it reads numbers from the GPU, or copies numbers to the GPU."""
    source = kwargs["data"] if "data" in kwargs else args[1 if name == "new_tensor" else 0]
    device = kwargs.get("device")
    if device is not None:
        to_gpu = torch.device(device).type == "cuda"
    else:
        like = args[0] if name == "new_tensor" else source
        to_gpu = isinstance(like, torch.Tensor) and on_gpu(like)
    if isinstance(source, torch.Tensor):
        return _copy(to_gpu) if on_gpu(source) != to_gpu else None
    read = any(map(on_gpu, tensors_in(source)))
    return _copy(not read) if read or to_gpu else None


def _wait_of_index(name: str, tensor: torch.Tensor, index: Any, *values: Any, **settings: Any) -> str | None:
    """Describe why indexing synchronizes: it counts a mask, reads a GPU scalar, or copies CPU indices."""
    if not on_gpu(tensor):
        return None
    several = isinstance(index, tuple) or (isinstance(index, list) and name != "__getitem__")
    parts = index if several else [index]
    for part in parts:
        if isinstance(part, torch.Tensor):
            if on_gpu(part) and part.dtype in (torch.bool, torch.uint8):
                return "a mask as an index"
            if on_gpu(part) and not part.dim() and name in ("__getitem__", "__setitem__"):
                return "a number as an index"
            if not on_gpu(part) and part.dim():
                return _copy(True)
        elif isinstance(part, list) or hasattr(part, "__array__"):
            return _copy(True)
    if any(on_gpu(end) for part in parts if isinstance(part, slice) for end in tensors_in(part)):
        return "a number as the end of a slice"
    copied = name == "__setitem__" and isinstance(values[0], torch.Tensor) and values[0].dim()
    return _copy(True) if copied and not on_gpu(values[0]) else None
