"""The features in the folder of a prepared task, and their metadata."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_core import Split

CHUNK = 64  # images at a time


@dataclass(frozen=True)
class Described:
    """Where features are from, for facts and reports."""

    shape: tuple[int, ...]  # of one image
    about: str
    notice: str = ""  # what a reader of reports should know


def opened(folder: Path, split: Split, shape: tuple[int, ...] | None = None) -> NDArray[np.float32]:
    """Open the features of a split's images, of a new `shape` to write them, else to read what is there."""
    path = folder / f"{split}.features.npy"
    if shape is None:
        table: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        table = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    found: NDArray[np.float32] = table
    return found
