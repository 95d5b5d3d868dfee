"""The file format of bootstrap replicates."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

REPLICATES = 1_000  #: replicates per number
BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  #: block lengths of streams

ReplicateScores: TypeAlias = NDArray[np.float64]  # [B, D], scores per block length; [0, D] for a whole population


def write_replicates(path: Path, replicates: Iterable[tuple[str, ReplicateScores]]) -> None:
    """Write the replicates of several numbers, sorted by name, in the safetensors format.

    The replicates are consumed one array at a time, so that they need not fit in memory.
    """
    table, end = dict[str, Any](), 0
    with TemporaryFile(dir=path.parent) as body, path.open("wb") as file:
        for name, draws in replicates:
            content = draws.astype("<f8").tobytes()
            table[name] = {"dtype": "F64", "shape": [*draws.shape], "data_offsets": [end, end + len(content)]}
            end += body.write(content)
        header = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
        header += b" " * (-len(header) % 8)
        file.write(len(header).to_bytes(8, "little") + header)
        body.seek(0)
        copyfileobj(body, file, 2**20)


class StoredReplicates(Mapping[str, ReplicateScores]):
    """The replicates written by `write_replicates`; each array is read on access."""

    def __init__(self, path: Path) -> None:
        """Read the names; raise ValueError if the file is invalid."""
        try:
            with safe_open(path, "numpy") as file:
                names = file.offset_keys()
                parts = {name: file.get_slice(name) for name in names}
                forms = {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()}
                invalid = next((name for name, form in forms.items() if not _is_valid(*form)), None)
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"it is not in the safetensors format: {error}") from None
        if invalid is not None:
            raise ValueError(f"{invalid[:80]!r} does not have {REPLICATES} replicates per block length")
        self.path = path
        with path.open("rb") as file:
            begin = 8 + int.from_bytes(file.read(8), "little")
        rows = {name: shape[0] for name, (_, shape) in forms.items()}
        begins = accumulate(rows.values(), lambda at, number: at + 8 * REPLICATES * number, initial=begin)
        self._places = dict(zip(names, zip(begins, rows.values(), strict=False), strict=True))

    def __getitem__(self, name: str) -> ReplicateScores:
        begin, rows = self._places[name]
        with open(self.path, "rb", buffering=0) as file:
            file.seek(begin)
            return np.frombuffer(file.read(8 * REPLICATES * rows), "<f8").reshape(rows, REPLICATES)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._places))

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


def _is_valid(dtype: str, shape: list[int]) -> bool:
    return dtype == "F64" and len(shape) == 2 and shape[0] <= len(BLOCKS) and shape[1] == REPLICATES
