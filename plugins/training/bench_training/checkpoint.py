"""Training checkpoints: the complete training state as safetensors and JSON."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
from torch import Tensor, nn

from bench_core.computing.building import unshared
from bench_core.computing.context import Inputs
from bench_core.errors import Fault, PluginError, StoreError
from bench_core.storage.checkpoints import CHECKPOINT, PLACES, checkpoint_key
from bench_core.storage.store import Artifact, Store
from bench_core.tensor_rows import Rows

WEIGHTS, TENSORS, REST = "weights.safetensors", "tensors.safetensors", "rest.json"

Kept: TypeAlias = Any  # tensors, numbers, words and None, in lists, tuples, mappings and Rows


@dataclass
class Checkpoints:
    """The checkpoints of one training, alternating between two places of a store, so one is always intact."""

    store: Store
    key: str  # of the training
    label: str
    every: float  # seconds from one to the next
    until: float | None = None  # seconds since 1970 at which to stop
    of: str = ""  # key of a training that is to come of it, where that is another one
    inputs: Callable[[], Inputs] = dict  # of the training so far, besides those in its key
    earlier: Inputs = field(default_factory=dict)  # filled from the loaded checkpoint
    spent: float = 0.0  # seconds of earlier runs
    begun: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)  # when the last one was
    place: int = 0  # of the next

    @property
    def weights(self) -> Path | None:
        """Return the path of the weights of the last checkpoint, if there is one."""
        path = self.store.path(CHECKPOINT, self._key(1 - self.place)) / WEIGHTS
        return path if path.exists() else None

    def last(self, model: nn.Module, device: torch.device) -> Kept:
        """Load the last checkpoint into the model, and return the rest of its state on a device; None without one.

        A damaged one is set aside with a warning, and the previous one is used.
        """
        found = [(one.manifest["step"], place, one) for place in PLACES if (one := self._stored(place))]
        for _, place, artifact in sorted(found, reverse=True, key=lambda one: one[0]):
            try:
                kept = _built(artifact.json(REST), load_file(str(artifact.file(TENSORS))), device)
                load_model(unshared(model), str(artifact.file(WEIGHTS)))
            except (StoreError, SafetensorError, RuntimeError, LookupError, TypeError, ValueError) as error:
                self._set_aside(place, error)
                continue
            self.place, self.spent = 1 - place, float(artifact.manifest["seconds"])
            self.earlier.update(artifact.manifest.get("observed", {}))
            return kept
        return None

    def due(self) -> bool:
        """Return whether the next checkpoint is due."""
        return time.monotonic() - self.saved >= self.every

    def over(self) -> bool:
        """Return whether the time limit is reached."""
        return self.until is not None and time.time() >= self.until

    def save(self, step: int, model: nn.Module, kept: Kept) -> None:
        """Write a checkpoint; if it cannot be written, warn and continue.

        Raises StageFailed for refused inputs, and PluginError if an input file changed after it was read.
        """
        key, label = self._key(self.place), f"{self.label} at step {step}"
        about = {"label": label, "of": self.of or self.key, "step": step, "seconds": self.seconds()}
        about["observed"] = self.inputs()
        tensors: dict[str, Tensor] = {}
        try:
            rest = _flat(kept, tensors)
            self.store.remove(CHECKPOINT, key)
            with self.store.writing(CHECKPOINT, key, about, sync=False) as folder:  # there is another place
                save_model(unshared(model), str(folder / WEIGHTS))
                save_file(tensors, str(folder / TENSORS))
                (folder / REST).write_text(json.dumps(rest), encoding="utf-8")
            self.place = 1 - self.place
        except (StoreError, PluginError) as error:
            self.store.warn(f"{self.label}: no checkpoint was written. {error}")
        self.saved = time.monotonic()

    def seconds(self) -> float:
        """Return the duration of the training, including earlier runs."""
        return round(self.spent + time.monotonic() - self.begun, 4)

    def remove(self) -> None:
        """Remove the checkpoints."""
        for place in PLACES:
            self.store.remove(CHECKPOINT, self._key(place))

    def _stored(self, place: int) -> Artifact | None:
        if not self.store.path(CHECKPOINT, self._key(place)).exists():
            return None
        if names := self.store.changed_inputs(CHECKPOINT, self._key(place)):
            why: Fault = f"{', '.join(names)} changed since it was written."
            self._set_aside(place, why)
            return None
        try:
            return self.store.get(CHECKPOINT, self._key(place))
        except StoreError as error:
            self._set_aside(place, error)
            return None

    def _set_aside(self, place: int, why: object) -> None:
        aside = self.store.set_aside(CHECKPOINT, self._key(place))
        self.store.warn(f"a checkpoint of {self.label} is not used: {why} It is kept in {aside}.")

    def _key(self, place: int) -> str:
        return checkpoint_key(self.key, place)


def to_bytes(value: Kept) -> bytes:
    """Return data, as a checkpoint keeps them, as bytes; `from_bytes` is the inverse."""
    tensors: dict[str, Tensor] = {}
    rest = json.dumps(_flat(value, tensors))
    return save(tensors, {"rest": rest})


def from_bytes(content: bytes, device: torch.device) -> Kept:
    """Return data with their tensors on a device."""
    size = int.from_bytes(content[:8], "little")
    rest = json.loads(content[8 : 8 + size])["__metadata__"]["rest"]
    return _built(json.loads(rest), load(content), device)


def _flat(value: Kept, tensors: dict[str, Tensor]) -> Any:
    """Return JSON data in which tensors are indices into `tensors`, which is filled."""
    inside: Callable[[Kept], Any] = lambda item: _flat(item, tensors)  # noqa: E731
    if isinstance(value, Tensor):
        tensors[str(len(tensors))] = value.detach().cpu().contiguous().clone()
        return ["tensor", len(tensors) - 1]
    if isinstance(value, Rows):
        kind, content = type(value), {f.name: inside(getattr(value, f.name)) for f in fields(value)}
        return ["rows", kind.__module__, kind.__qualname__, content]
    if isinstance(value, Mapping):
        return ["mapping", [[name, inside(item)] for name, item in value.items()]]
    if isinstance(value, (tuple, list)):
        return [type(value).__name__ if type(value) in (tuple, list) else "tuple", [*map(inside, value)]]
    if value is None or isinstance(value, (bool, int, float, str)):
        return ["plain", value]
    raise PluginError(f"A {type(value).__name__} cannot be stored: only tensors, numbers, strings, and Rows of them.")


def _built(flat: Any, tensors: Mapping[str, Tensor], device: torch.device) -> Kept:
    """Inverse of `_flat`; Rows must be classes of modules that are already imported."""
    inside: Callable[[Any], Kept] = lambda item: _built(item, tensors, device)  # noqa: E731
    kind, *content = flat
    if kind == "tensor":
        # A copy: inside of the file it lies where it may, and sums in the processor depend on that by their last bit.
        return tensors[str(content[0])].to(device, copy=True)
    if kind == "rows":
        return _rows_class(*content[:2])(**{name: inside(item) for name, item in content[2].items()})
    if kind == "mapping":
        return {name: inside(item) for name, item in content[0]}
    if kind in ("tuple", "list"):
        return {"tuple": tuple, "list": list}[kind](map(inside, content[0]))
    return content[0]


def _rows_class(module: str, name: str) -> type[Rows]:
    found: Any = sys.modules.get(module)
    for word in name.split("."):
        found = getattr(found, word, None)
    if not (isinstance(found, type) and issubclass(found, Rows)):
        raise ValueError(f"it holds {module}.{name}, which is not known here")
    return found
