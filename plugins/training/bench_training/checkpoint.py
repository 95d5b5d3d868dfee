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

Storable: TypeAlias = Any  # tensors, numbers, strings and None, in lists, tuples, mappings and Rows


@dataclass
class Checkpoints:
    """The checkpoints of a training run, alternating between two places in a store so that one is always intact."""

    store: Store
    key: str
    label: str
    every: float  # seconds between checkpoints
    until: float | None = None  # seconds since 1970 at which to stop
    of: str = ""  # for vmapped seeds: the training key of the first seed
    inputs: Callable[[], Inputs] = dict  # returns inputs observed so far, in addition to those in `key`
    earlier: Inputs = field(default_factory=dict)  # filled from the loaded checkpoint
    spent: float = 0.0  # seconds in earlier runs
    begun: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)  # when the last checkpoint was written
    place: int = 0  # where the next checkpoint goes

    @property
    def weights(self) -> Path | None:
        """The path of the last checkpoint's weights, if there is a checkpoint."""
        path = self.store.path(CHECKPOINT, self._key(1 - self.place)) / WEIGHTS
        return path if path.exists() else None

    def last(self, model: nn.Module, device: torch.device) -> Storable:
        """Load the last checkpoint's weights into the model; return the remaining state on a device, or None.

        A damaged checkpoint is set aside with a warning, and the previous checkpoint is used.
        """
        stored = [(each.manifest["step"], place, each) for place in PLACES if (each := self._load(place))]
        for _, place, artifact in sorted(stored, reverse=True, key=lambda entry: entry[0]):
            try:
                state = _built(artifact.json(REST), load_file(str(artifact.file(TENSORS))), device)
                load_model(unshared(model), str(artifact.file(WEIGHTS)))
            except (StoreError, SafetensorError, RuntimeError, LookupError, TypeError, ValueError) as error:
                self._set_aside(place, error)
                continue
            self.place, self.spent = 1 - place, float(artifact.manifest["seconds"])
            self.earlier.update(artifact.manifest.get("observed", {}))
            return state
        return None

    def due(self) -> bool:
        """Return whether the next checkpoint is due."""
        return time.monotonic() - self.saved >= self.every

    def over(self) -> bool:
        """Return whether the time limit is reached."""
        return self.until is not None and time.time() >= self.until

    def save(self, step: int, model: nn.Module, state: Storable) -> None:
        """Write a checkpoint; if that fails, warn and continue.

        Raises StageFailed for refused inputs, and PluginError if an input file changed after it was read.
        """
        key, label = self._key(self.place), f"{self.label} at step {step}"
        about = {"label": label, "of": self.of or self.key, "step": step, "seconds": self.seconds()}
        about["observed"] = self.inputs()
        tensors: dict[str, Tensor] = {}
        try:
            rest = _flat(state, tensors)
            self.store.remove(CHECKPOINT, key)
            with self.store.writing(CHECKPOINT, key, about, sync=False) as folder:  # the other checkpoint is intact
                save_model(unshared(model), str(folder / WEIGHTS))
                save_file(tensors, str(folder / TENSORS))
                (folder / REST).write_text(json.dumps(rest), encoding="utf-8")
            self.place = 1 - self.place
        except (StoreError, PluginError) as error:
            self.store.warn(f"{self.label}: the checkpoint could not be written. {error}")
        self.saved = time.monotonic()

    def seconds(self) -> float:
        """Return the duration of training, including earlier runs."""
        return round(self.spent + time.monotonic() - self.begun, 4)

    def remove(self) -> None:
        """Remove the checkpoints."""
        for place in PLACES:
            self.store.remove(CHECKPOINT, self._key(place))

    def _load(self, place: int) -> Artifact | None:
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
        self.store.warn(f"a checkpoint of {self.label} is ignored: {why} It was moved to {aside}.")

    def _key(self, place: int) -> str:
        return checkpoint_key(self.key, place)


def to_bytes(value: Storable) -> bytes:
    """Serialize storable data; `from_bytes` is the inverse."""
    tensors: dict[str, Tensor] = {}
    return save(tensors, metadata={"rest": json.dumps(_flat(value, tensors))})


def from_bytes(content: bytes, device: torch.device) -> Storable:
    """Deserialize the result of `to_bytes`, with tensors on a device."""
    size = int.from_bytes(content[:8], "little")
    rest = json.loads(content[8 : 8 + size])["__metadata__"]["rest"]
    return _built(json.loads(rest), load(content), device)


def _flat(value: Storable, tensors: dict[str, Tensor]) -> Any:
    """Return JSON data in which tensors are replaced by indices; add the tensors to `tensors`."""
    inside: Callable[[Storable], Any] = lambda item: _flat(item, tensors)  # noqa: E731
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
    raise PluginError(
        f"A {type(value).__name__} cannot be stored. Use only tensors, numbers, strings, and Rows of these."
    )


def _built(flat: Any, tensors: Mapping[str, Tensor], device: torch.device) -> Storable:
    """Invert `_flat`: rebuild data from `flat`; modules that define Rows classes must already be imported."""
    inside: Callable[[Any], Storable] = lambda item: _built(item, tensors, device)  # noqa: E731
    kind, *content = flat
    if kind == "tensor":
        # Copied because alignment in the file is arbitrary and affects the last bit of sums on a CPU.
        return tensors[str(content[0])].to(device, copy=True)
    if kind == "rows":
        return _rows_class(*content[:2])(**{name: inside(item) for name, item in content[2].items()})
    if kind == "mapping":
        return {name: inside(item) for name, item in content[0]}
    if kind in ("tuple", "list"):
        return {"tuple": tuple, "list": list}[kind](map(inside, content[0]))
    return content[0]


def _rows_class(module: str, name: str) -> type[Rows]:
    value: Any = sys.modules.get(module)
    for word in name.split("."):
        value = getattr(value, word, None)
    if not (isinstance(value, type) and issubclass(value, Rows)):
        raise ValueError(f"it contains {module}.{name}, which is not an imported Rows class")
    return value
