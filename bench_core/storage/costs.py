"""The cost of stages on a device: records of finished stages, and calibrations of stages that have not run.

Costs are stored next to artifacts, under keys that do not depend on the seed. They are not part of any cache key, and
may be deleted at any time.
"""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, ValidationError

from bench_core.storage.store import Store

FOLDER = "costs"
MAX_BYTES = 2**16  #: limit for a file
KEY_CHARACTERS = 32  # length of keys in file names


class Cost(BaseModel):
    """The cost of a stage; damaged files and files of other versions are treated as missing."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    device: str  #: the device on which it was measured


class CostRecord(Cost):
    """The cost of a finished stage, or the predicted cost of a score stage."""

    seconds: NonNegativeFloat  #: wall-clock time
    cpu_seconds: NonNegativeFloat | None = None  #: None in records of version 0.2
    peak: NonNegativeInt | None = None  #: peak memory in bytes


T = TypeVar("T", bound=Cost)


class Costs:
    """The costs in a store, by key and device."""

    def __init__(self, store: Store) -> None:
        self.folder = store.root / FOLDER

    def read(self, kind: type[T], key: str, device: str) -> T | None:
        """Return the cost under a key on a device, or None."""
        with suppress(OSError, ValidationError):
            path = self._path(kind, key, device)
            if path.stat().st_size <= MAX_BYTES:
                cost = kind.model_validate_json(path.read_bytes())
                return cost if cost.device == device else None
        return None

    def write(self, key: str, cost: Cost) -> None:
        """Write a cost, replacing any earlier cost; has no effect if the store is not writable."""
        path = self._path(type(cost), key, cost.device)
        partial = path.with_name(f"{path.name}.{token_hex(4)}")
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                partial.write_text(cost.model_dump_json(), encoding="utf-8")
                os.replace(partial, path)
            finally:
                partial.unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Remove the costs under a key on all devices, if possible."""
        for path in self.folder.glob(f"*-{key[:KEY_CHARACTERS]}-*.json"):
            with suppress(OSError):
                path.unlink()

    def _path(self, kind: type[Cost], key: str, device: str) -> Path:
        device_digest = sha256(device.encode()).hexdigest()[:8]
        return self.folder / f"{kind.__name__.lower()}-{key[:KEY_CHARACTERS]}-{device_digest}.json"
