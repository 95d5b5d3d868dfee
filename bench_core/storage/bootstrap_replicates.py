"""Bootstrap replicates of a score: percentile intervals, and their file format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from math import cbrt, ceil
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

DRAWS = 1_000  #: of a number
FORM = "F64", [DRAWS]  # of the replicates of one number, as safetensors calls it
LEVEL = 0.95  #: of intervals

Draws: TypeAlias = NDArray[np.float64]  # [D], a score each


def write_draws(path: Path, found: Iterable[tuple[str, Draws]]) -> None:
    """Write the replicates of several numbers, in the order of their names, as safetensors writes them.

    They are taken one by one, so that all of them need not be in memory.
    """
    table, end = dict[str, Any](), 0
    with TemporaryFile(dir=path.parent) as body, path.open("wb") as file:
        for name, draws in found:
            content = draws.astype("<f8").tobytes()
            table[name] = {"dtype": "F64", "shape": [*draws.shape], "data_offsets": [end, end + len(content)]}
            end += body.write(content)
        header = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
        header += b" " * (-len(header) % 8)
        file.write(len(header).to_bytes(8, "little") + header)
        body.seek(0)
        copyfileobj(body, file, 2**20)


class StoredDraws(Mapping[str, Draws]):
    """The replicates written by `write_draws`, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        """Read their names; raise ValueError if the file is invalid."""
        try:
            with safe_open(path, "numpy") as file:
                names = file.offset_keys()
                parts = ((name, file.get_slice(name)) for name in names)
                odd = next((name for name, one in parts if (one.get_dtype(), one.get_shape()) != FORM), None)
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"it is not in the safetensors format: {error}") from None
        if odd is not None:
            raise ValueError(f"{odd[:80]!r} is not {DRAWS} numbers")
        self.path = path
        with path.open("rb") as file:
            begin = 8 + int.from_bytes(file.read(8), "little")
        self._begins = {name: begin + 8 * DRAWS * place for place, name in enumerate(names)}

    def __getitem__(self, name: str) -> Draws:
        begin = self._begins[name]
        with open(self.path, "rb", buffering=0) as file:
            file.seek(begin)
            return np.frombuffer(file.read(8 * DRAWS), "<f8")

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._begins))

    def __len__(self) -> int:
        return len(self._begins)

    def __contains__(self, name: object) -> bool:
        return name in self._begins


def percentiles(scores: Draws, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the percentile interval of replicates; None if some are not finite."""
    if not len(scores) or not np.isfinite(scores).all():
        return None
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def block_length(examples: int) -> int:
    """Return the block length of the block bootstrap for consecutive examples (Hall et al., 1995)."""
    return max(1, ceil(cbrt(examples)))
