"""Records where the CPU waits for the pretended GPU, with the line of the code that makes it wait."""

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
_OWN = str(Path(__file__).parent)
_PASSING = {contextlib.__file__, unittest.mock.__file__, host_copies.__file__}


@dataclass(frozen=True)
class Synchronisation:
    """The CPU waits for the GPU."""

    operation: str  # such as "item", or "a mask as an index"
    file: str
    line: int
    function: str  # in which that line is
    reason: str = ""  # why the code waits on purpose; empty if it does not say so

    @property
    def place(self) -> str:
        """Return file and line."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.place} in {self.function}: {self.operation}{why}"


_records: list[list[Synchronisation]] = []


@contextmanager
def synchronisations() -> Iterator[list[Synchronisation]]:
    """Record where the CPU waits for the pretended GPU; the list that is yielded grows.

    Also those within operations of torch and in gradients are found, as far as torch's kernels for the CPU have them
    too. It is used within `Pretended`.
    """
    found: list[Synchronisation] = []
    _records.append(found)
    try:
        with _Within():  # type: ignore[no-untyped-call]
            yield found
    finally:
        _records.pop()


def undeclared(found: Sequence[Synchronisation]) -> list[Synchronisation]:
    """Return those that are not declared by `waits_for_device`."""
    return [one for one in found if not one.reason]


def recording() -> bool:
    """Return whether synchronisations are recorded."""
    return bool(_records)


def record(operation: str) -> None:
    """Record that the CPU waits, in the first frame of the stack that is neither torch's nor this package's."""
    if not _records:
        return
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and _is_passing(frame.f_code.co_filename):
        frame = frame.f_back
    code, reason = frame.f_code, host_copies.reason_to_wait()
    found = Synchronisation(operation, code.co_filename, frame.f_lineno, code.co_name, reason)
    for records in _records:
        records.append(found)


def _is_passing(file: str) -> bool:
    return file.startswith((_TORCH, _OWN, "<")) or file in _PASSING


class Inside:
    """What is being computed on the GPU: a function of torch with its inputs, or gradients."""

    inputs: Sequence[torch.Tensor] | None = None  # None while nothing is
    waited: bool = False  # whether it has been recorded already


@contextmanager
def computing(inputs: Sequence[torch.Tensor], waited: bool = False) -> Iterator[None]:
    """Say that what is within computes on the GPU, with these inputs; if it `waited`, that it is recorded already."""
    before = Inside.inputs, Inside.waited
    Inside.inputs, Inside.waited = inputs, waited
    try:
        yield
    finally:
        Inside.inputs, Inside.waited = before


class _Within(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hears of the operations within functions of torch, and of those of gradients."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if Inside.inputs is not None and not Inside.waited and _waits(func, args):
            record(f"{func.overloadpacket.__name__} within")
            Inside.waited = bool(Inside.inputs)
        return func(*args, **(kwargs or {}))


def _waits(func: Any, args: Any) -> bool:
    """Return whether an operation of ATen waits, unless it is about an input on the CPU."""
    name = func.overloadpacket.__name__
    if name not in ATEN and not (name in ("index", "index_put", "index_put_") and _has_mask(args)):
        return False
    first = next(tensors_in(args), None)
    on_cpu = [one for one in Inside.inputs or () if not on_gpu(one)]
    return first is None or not any(same_memory(first, one) for one in on_cpu)


def _has_mask(args: Any) -> bool:
    return any(one.dtype in (torch.bool, torch.uint8) for one in tensors_in(args[1]))
