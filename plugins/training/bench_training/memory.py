"""The memory of a training, counted before anything is allocated: by a dry run of an update on the meta device."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from bench_core.data import Batch
from bench_core.model import Training
from bench_core.random_numbers import Noise
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that operations allocate inside of the block, and the most at a time.

    Operations on the meta device allocate nothing, and count as if they did. What kernels allocate for themselves is
    not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self._known: dict[int, tuple[StorageWeakRef, int]] = {}  # by storage; with its bytes

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        before = {_storage(tensor) for tensor in _tensors((args, kwargs))}
        found = self._perform(func, args, dict(kwargs or {}))
        for tensor in _tensors(found):
            if _storage(tensor) not in before:
                self._add(tensor.untyped_storage())
        return found

    def _perform(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)

    def _add(self, storage: torch.UntypedStorage) -> None:
        known = self._known.get(storage._cdata)
        if known is not None and not known[0].expired():  # type: ignore[no-untyped-call]
            return
        if known is not None:  # of one that is gone, whose place the new one has
            self.live -= known[1]
        self._known[storage._cdata] = StorageWeakRef(storage), storage.nbytes()  # type: ignore[no-untyped-call]
        self.live += storage.nbytes()
        if self.live > self.peak:
            self._drop()
            self.peak = max(self.peak, self.live)

    def _drop(self) -> None:
        """Forget the storages that are gone."""
        gone = [mark for mark, (storage, _) in self._known.items() if storage.expired()]  # type: ignore[no-untyped-call]
        for mark in gone:
            del self._known[mark]
        self.live = sum(size for _, size in self._known.values())


class DryRun(LiveBytes):  # type: ignore[no-untyped-call]
    """Computes without numbers where these are many: weights and activations are on the meta device, ids are not.

    Batches stay on the CPU with all that follows from them alone, such as masks and positions, so that loops over the
    longest row and selections by a mask work. Where such tensors meet activations, only their shapes count.
    """

    def _perform(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        tensors = [*_tensors((args, kwargs))]
        if any(tensor.is_meta for tensor in tensors):
            if func not in _READS_VALUES:
                args, kwargs = tree_map(_shape_of, (_by_places(func, args), kwargs))
            return func(*args, **kwargs)
        if str(kwargs.get("device")) == "meta" and not _is_float(kwargs.get("dtype"), tensors):
            kwargs = {**kwargs, "device": "cpu"}
        return func(*args, **kwargs)


_READS_VALUES = {torch.ops.aten._pack_padded_sequence.default}
_INDEXED = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default}


def _by_places(func: Callable[..., Any], args: Any) -> Any:
    """Return the arguments of an indexing with places instead of masks, as how many there are shapes the result."""
    if func not in _INDEXED:
        return args
    places: list[Tensor | None] = []
    for index in args[1]:
        mask = index is not None and index.dtype == torch.bool and not index.is_meta
        places += [*index.nonzero().unbind(1)] if mask else [index]
    return (args[0], places, *args[2:])


def _shape_of(value: Any) -> Any:
    """Return a tensor of the CPU as one of the meta device; all else as it is."""
    return value.to("meta") if isinstance(value, Tensor) and not value.is_meta else value


def _is_float(dtype: torch.dtype | None, tensors: Sequence[Tensor]) -> bool:
    """Return whether an operation that gives no `dtype` makes floating-point numbers; one without inputs does."""
    if dtype is not None:
        return dtype.is_floating_point
    return tensors[0].dtype.is_floating_point if tensors else True


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the dense tensors inside of arguments or results, and the values of sparse ones."""
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tensor):
            if leaf.layout == torch.strided:
                yield leaf
            elif leaf.layout == torch.sparse_coo:
                yield from (leaf._indices(), leaf._values())


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def size_of(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of tensors, those that share their memory counted once."""
    return sum({_storage(one): one.untyped_storage().nbytes() for one in _tensors([*tensors])}.values())


def weights_and_optimizer(model: nn.Module, config: TrainingConfig) -> tuple[int, int]:
    """Return the bytes of weights on the meta device, twice for a copy of the best ones, and of their optimizers."""
    weights = size_of([*model.parameters(), *model.buffers()])
    found = optimizers(model, config, torch.device("meta"))
    for optimizer in found:
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.grad = torch.zeros_like(weight)
    try:
        for optimizer in found:
            optimizer.step()
        state = size_of(tree_leaves([optimizer.state for optimizer in found]))
    except (RuntimeError, NotImplementedError, TypeError):  # it reads values, which the meta device has not
        state = 2 * size_of(model.parameters())
    model.zero_grad(set_to_none=True)
    return 2 * weights, state


def dry_run(model: Any, batch: Batch, settings: Mapping[str, Any]) -> int:
    """Return the bytes of gradients and activations at the peak of an update of a model on the meta device.

    Raises what a model raises that reads the values of activations, which are not there.
    """
    with DryRun() as counted:
        loss = model.loss(batch, Training(0, 1, 0, 1, Noise(0), None, settings))
        loss.value.backward(torch.ones_like(loss.value))
        del loss
    model.zero_grad(set_to_none=True)
    return int(counted.peak)


def available(device: torch.device) -> int:
    """Return the free bytes of a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    import psutil

    return int(psutil.virtual_memory().available)
