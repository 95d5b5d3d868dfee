"""Predicts the memory that training needs from a dry run of an update on the meta device, without allocating it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from bench_core.data import Batch
from bench_core.model import Training
from bench_core.random_numbers import Rng
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the current and peak bytes of the tensors that operations allocate inside the block.

    Operations on the meta device count as if they allocated memory. Internal allocations of kernels are not counted.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}  # storages and their bytes, by address

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        before = {_storage(tensor) for tensor in _tensors((args, kwargs))}
        result = self._perform(func, args, dict(kwargs or {}))
        for tensor in _tensors(result):
            if _storage(tensor) not in before:
                self._add(tensor.untyped_storage())
        return result

    def _perform(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)

    def _add(self, storage: torch.UntypedStorage) -> None:
        previous = self._storages.get(storage._cdata)
        if previous is not None and not previous[0].expired():  # type: ignore[no-untyped-call]
            return
        if previous is not None:  # freed; the new storage reuses its address
            self.live -= previous[1]
        self._storages[storage._cdata] = StorageWeakRef(storage), storage.nbytes()  # type: ignore[no-untyped-call]
        self.live += storage.nbytes()
        if self.live > self.peak:
            self._drop()
            self.peak = max(self.peak, self.live)

    def _drop(self) -> None:
        """Remove freed storages."""
        freed = [address for address, (storage, _) in self._storages.items() if storage.expired()]  # type: ignore[no-untyped-call]
        for address in freed:
            del self._storages[address]
        self.live = sum(size for _, size in self._storages.values())


class DryRun(LiveBytes):  # type: ignore[no-untyped-call]
    """Runs operations with weights and activations on the meta device and ids on the CPU.

    Batches and tensors derived from batches alone, such as masks and positions, stay on the CPU, so that loops over
    the longest row and selection by a mask work. When they are combined with activations, only their shapes are used.
    """

    def _perform(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        tensors = [*_tensors((args, kwargs))]
        if any(tensor.is_meta for tensor in tensors):
            if func not in _READS_VALUES:
                args, kwargs = tree_map(_shape_of, (_with_indices(func, args), kwargs))
            return func(*args, **kwargs)
        if str(kwargs.get("device")) == "meta" and not _is_float(kwargs.get("dtype"), tensors):
            kwargs = {**kwargs, "device": "cpu"}
        return func(*args, **kwargs)


_READS_VALUES = {torch.ops.aten._pack_padded_sequence.default}
_INDEXED = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default}


def _with_indices(func: Callable[..., Any], args: Any) -> Any:
    """Replace masks in the arguments of an indexing operation with indices, which determine the result's shape."""
    if func not in _INDEXED:
        return args
    indices: list[Tensor | None] = []
    for index in args[1]:
        mask = index is not None and index.dtype == torch.bool and not index.is_meta
        indices += [*index.nonzero().unbind(1)] if mask else [index]
    return (args[0], indices, *args[2:])


def _shape_of(value: Any) -> Any:
    """Move a CPU tensor to the meta device; return other values unchanged."""
    return value.to("meta") if isinstance(value, Tensor) and not value.is_meta else value


def _is_float(dtype: torch.dtype | None, tensors: Sequence[Tensor]) -> bool:
    """Return whether an operation returns floating-point numbers; true if it has neither `dtype` nor inputs."""
    if dtype is not None:
        return dtype.is_floating_point
    return tensors[0].dtype.is_floating_point if tensors else True


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the dense tensors in arguments or results, and the indices and values of sparse tensors."""
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tensor):
            if leaf.layout == torch.strided:
                yield leaf
            elif leaf.layout == torch.sparse_coo:
                yield from (leaf._indices(), leaf._values())


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def size_of(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of tensors, counting shared memory once."""
    return sum({_storage(tensor): tensor.untyped_storage().nbytes() for tensor in _tensors([*tensors])}.values())


def weights_and_optimizer(model: nn.Module, config: TrainingConfig) -> tuple[int, int]:
    """Return the bytes of weights (including a copy of the best weights) and optimizer state, on the meta device."""
    weights = size_of([*model.parameters(), *model.buffers()])
    all_optimizers = optimizers(model, config, torch.device("meta"))
    for optimizer in all_optimizers:
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.grad = torch.zeros_like(weight)
    try:
        for optimizer in all_optimizers:
            optimizer.step()
        state = size_of(tree_leaves([optimizer.state for optimizer in all_optimizers]))
    except (RuntimeError, NotImplementedError, TypeError):  # the model reads values, which the meta device lacks
        state = 2 * size_of(model.parameters())
    model.zero_grad(set_to_none=True)
    return 2 * weights, state


def dry_run(model: Any, batch: Batch, settings: Mapping[str, Any]) -> int:
    """Return the peak bytes of gradients and activations in an update of a model on the meta device.

    A model that reads the values of activations, which do not exist on this device, may raise any exception.
    """
    with DryRun() as live:
        loss = model.loss(batch, Training(0, 1, 0, 1, Rng(0), None, settings))
        loss.value.backward(torch.ones_like(loss.value))
        del loss
    model.zero_grad(set_to_none=True)
    return int(live.peak)


def available(device: torch.device) -> int:
    """Return the free bytes of a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    import psutil

    return int(psutil.virtual_memory().available)
