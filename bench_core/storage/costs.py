"""What stages cost on a device: records of finished stages, and calibrations of those that have not run.

They are kept beside the artifacts of a store, under keys that leave the seed out. They are in no cache key, and may
be deleted at any time.
"""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeFloat,
    NonNegativeInt,
    ValidationError,
)

from bench_core.storage.store import Store

FOLDER = "costs"
LARGEST = 2**16  #: bytes of a file
SHORT = 32  # letters of a key in the name of a file


class Cost(BaseModel):
    """The cost of a stage; files that are damaged, or of another version, count as absent."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    device: str  #: on which it was measured


class Record(Cost):
    """The cost of a finished stage, or the predicted one of a scoring."""

    seconds: NonNegativeFloat  #: wall-clock
    cpu_seconds: NonNegativeFloat | None = None  #: None in records of version 0.2
    peak: NonNegativeInt | None = None  #: bytes


T = TypeVar("T", bound=Cost)


class Costs:
    """The costs in a store, by key and device."""

    def __init__(self, store: Store) -> None:
        self.folder = store.root / FOLDER

    def read(self, kind: type[T], key: str, device: str) -> T | None:
        """Return the cost under a key on a device, or None."""
        with suppress(OSError, ValidationError):
            path = self._path(kind, key, device)
            if path.stat().st_size <= LARGEST:
                found = kind.model_validate_json(path.read_bytes())
                return found if found.device == device else None
        return None

    def write(self, key: str, cost: Cost) -> None:
        """Write a cost, in place of an earlier one; without effect if the store cannot be written."""
        path = self._path(type(cost), key, cost.device)
        fresh = path.with_name(f"{path.name}.{token_hex(4)}")
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                fresh.write_text(cost.model_dump_json(), encoding="utf-8")
                os.replace(fresh, path)
            finally:
                fresh.unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Remove what is known under a key, on all devices, if possible."""
        for path in self.folder.glob(f"*-{key[:SHORT]}-*.json"):
            with suppress(OSError):
                path.unlink()

    def _path(self, kind: type[Cost], key: str, device: str) -> Path:
        mark = sha256(device.encode()).hexdigest()[:8]
        return self.folder / f"{kind.__name__.lower()}-{key[:SHORT]}-{mark}.json"
