"""Files of features or pixels in the folder of a prepared task, and their metadata."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_core import Split

CHUNK = 64  # images per chunk


@dataclass(frozen=True)
class FeatureInfo:
    """Shape and origin of features or pixels, for task info and reports."""

    shape: tuple[int, ...]  # shape of one image's features
    about: str
    notice: str = ""  # note for readers of reports


def open_features(
    folder: Path, split: Split, shape: tuple[int, ...] | None = None, dtype: type[np.number[Any]] = np.float32
) -> NDArray[Any]:
    """Open the features of a split; with a `shape`, create the file for writing, else open it for reading."""
    path = folder / f"{split}.features.npy"
    if shape is None:
        table: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        table = np.lib.format.open_memmap(path, "w+", dtype, shape)
    return table
