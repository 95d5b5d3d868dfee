"""Records where the CPU waits for the simulated GPU, with the responsible line of code."""

import contextlib
import sys
import unittest.mock
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench_authors.testing.pretended.placement import on_gpu, same_memory, tensors_in
from bench_authors.testing.pretended.waits import ATEN
from bench_core import host_copies

_TORCH = str(Path(torch.__file__).parent)
_PACKAGE = str(Path(__file__).parent)
_SKIPPED_FILES = {contextlib.__file__, unittest.mock.__file__, host_copies.__file__}


@dataclass(frozen=True)
class Synchronisation:
    """A wait of the CPU for the GPU."""

    operation: str  # such as "item", or "a mask as an index"
    file: str
    line: int
    function: str
    reason: str = ""  # declared reason to wait, or empty

    @property
    def place(self) -> str:
        """Return `file:line`."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.place} in {self.function}: {self.operation}{why}"


_records: list[list[Synchronisation]] = []


@contextmanager
def synchronisations() -> Iterator[list[Synchronisation]]:
    """Record waits of the CPU for the simulated GPU in the yielded list; use it within `Pretended`.

    Waits within torch operations and in gradients are included if torch's CPU kernels have the same waits.
    """
    recorded: list[Synchronisation] = []
    _records.append(recorded)
    try:
        with _InternalOperations():  # type: ignore[no-untyped-call]
            yield recorded
    finally:
        _records.pop()


def undeclared(recorded: Sequence[Synchronisation]) -> list[Synchronisation]:
    """Return the waits that are not declared by `waits_for_device`."""
    return [wait for wait in recorded if not wait.reason]


def recording() -> bool:
    """Return whether waits are recorded."""
    return bool(_records)


def record(operation: str) -> None:
    """Record a wait in the innermost stack frame outside torch and this package."""
    if not _records:
        return
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and _is_skipped(frame.f_code.co_filename):
        frame = frame.f_back
    code, reason = frame.f_code, host_copies.reason_to_wait()
    wait = Synchronisation(operation, code.co_filename, frame.f_lineno, code.co_name, reason)
    for records in _records:
        records.append(wait)


def _is_skipped(file: str) -> bool:
    return file.startswith((_TORCH, _PACKAGE, "<")) or file in _SKIPPED_FILES


class Computation:
    """The current computation on the GPU: a function of torch with its inputs, or gradients."""

    inputs: Sequence[torch.Tensor] | None = None  # None without a computation
    waited: bool = False  # whether its wait is already recorded


@contextmanager
def computing(inputs: Sequence[torch.Tensor], waited: bool = False) -> Iterator[None]:
    """Declare that the block is a GPU computation with these inputs; `waited`: its wait is already recorded."""
    before = Computation.inputs, Computation.waited
    Computation.inputs, Computation.waited = inputs, waited
    try:
        yield
    finally:
        Computation.inputs, Computation.waited = before


class _InternalOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Intercepts operations inside functions of torch and gradients."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if Computation.inputs is not None and not Computation.waited and _waits(func, args):
            record(f"{func.overloadpacket.__name__} within")
            Computation.waited = bool(Computation.inputs)
        return func(*args, **(kwargs or {}))


def _waits(func: Any, args: Any) -> bool:
    """Return whether an ATen operation waits and its input is not on the CPU."""
    name = func.overloadpacket.__name__
    if name not in ATEN and not (name in ("index", "index_put", "index_put_") and _has_mask(args)):
        return False
    first = next(tensors_in(args), None)
    on_cpu = [tensor for tensor in Computation.inputs or () if not on_gpu(tensor)]
    return first is None or not any(same_memory(first, tensor) for tensor in on_cpu)


def _has_mask(args: Any) -> bool:
    return any(index.dtype in (torch.bool, torch.uint8) for index in tensors_in(args[1]))
