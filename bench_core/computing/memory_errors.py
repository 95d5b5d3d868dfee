"""Tells from an error whether memory ran out."""

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error is out-of-memory: of a GPU, of torch on the CPU, or of Python.

    On the CPU torch has no class for it. The core raises no plain RuntimeError, so that no text of ours is read here.
    """
    if type(error) is RuntimeError:
        return "can't allocate memory" in str(error)
    return isinstance(error, (MemoryError, torch.OutOfMemoryError))
