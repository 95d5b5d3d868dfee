"""Recognition of out-of-memory errors."""

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means out of memory, on a GPU, in torch on the CPU, or in Python.

    On the CPU, torch has no class for these errors, so their texts are examined. The core does not raise plain
    RuntimeErrors.
    """
    if type(error) is RuntimeError:
        return "can't allocate memory" in str(error)
    return isinstance(error, (MemoryError, torch.OutOfMemoryError))
