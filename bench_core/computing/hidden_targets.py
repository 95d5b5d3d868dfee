"""Batches for decoding, with hidden targets."""

from dataclasses import replace
from typing import Any

from bench_core.data import Batch
from bench_core.errors import PluginError


class TargetHidden(PluginError, AttributeError):
    """A part accessed the targets of a batch for decoding."""


class _Hidden:
    """A placeholder for targets: any use of it raises."""

    def _raise(self, *arguments: Any, **more: Any) -> Any:
        raise TargetHidden(
            "it accesses the targets (`gold`, `length`). Batches for decoding have none: use `prompt` and `source`."
        )

    __getattr__ = __getitem__ = __iter__ = __len__ = __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = _raise
    __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __and__ = __or__ = __index__ = _raise
    __torch_function__: Any = classmethod(_raise)  # type: ignore[arg-type]
    __hash__ = None  # type: ignore[assignment]


def without_targets(batch: Batch) -> Batch:
    """Return a batch for decoding: any use of `gold`, `length` or derived values raises."""
    hidden: Any = _Hidden()
    return replace(batch, gold=hidden, length=hidden)
