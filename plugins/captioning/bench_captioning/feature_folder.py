"""Features in a folder, one array per image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_core import DataError


@dataclass(frozen=True)
class ImageArray:
    """The features of one image: a .npy file, or a tensor of a .safetensors file."""

    path: Path
    tensor: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.tensor!r}" if self.tensor else str(self.path)

    def read(self) -> NDArray[Any]:
        """Return the array; raise DataError unless it holds floating-point numbers."""
        from safetensors import SafetensorError, safe_open

        try:
            if self.tensor is None:
                array: NDArray[Any] = np.load(self.path, allow_pickle=False)
            else:
                with safe_open(self.path, "numpy") as file:
                    array = file.get_tensor(self.tensor)
        except (OSError, ValueError, EOFError, TypeError, SafetensorError) as error:
            raise DataError(f"{self} cannot be read as an array: {one_line(error)}. Save it again.") from None
        if array.dtype.kind != "f":
            raise DataError(f"{self} holds {array.dtype}, not floating-point numbers. Save it as float32.")
        return array


@dataclass(frozen=True)
class ImageArrays:
    """The arrays of a folder, of one shape."""

    folder: Path
    arrays: Sequence[ImageArray]
    names: Sequence[str]  # images as named by files or tensors

    @classmethod
    def of(cls, folder: Path) -> ImageArrays:
        """List the arrays of a folder and its subfolders; raise DataError if there are none or names are repeated."""
        named: dict[str, ImageArray] = {}
        for name, array in _arrays(folder):
            if name in named:
                raise DataError(f"{named[name]} and {array} are both named after image {name!r}. Remove one of them.")
            named[name] = array
        if not named:
            raise DataError(
                f"{folder} has no .npy or .safetensors files. Put the features there, one array per image."
            )
        return cls(folder, [*named.values()], [*named])

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of arrays, and the shape of the first."""
        return len(self.arrays), *self.arrays[0].read().shape

    def read(self, rows: Sequence[int]) -> NDArray[Any]:
        """Return the features of images; raise DataError for an array of another shape than the first."""
        expected = self.shape[1:]
        selected = []
        for row in rows:
            array = self.arrays[row].read()
            if array.shape != expected:
                raise DataError(
                    f"{self.arrays[row]} has shape {list(array.shape)}, but {self.arrays[0]} has {list(expected)}. "
                    "Compute all features with the same network and image size."
                )
            selected.append(array)
        return np.stack(selected)


def _arrays(folder: Path) -> Iterator[tuple[str, ImageArray]]:
    """Yield the name of each array's image and the array, in order of file names."""
    from safetensors import SafetensorError, safe_open

    for path in sorted(folder.rglob("*")):
        if path.suffix == ".npy":
            yield path.relative_to(folder).with_suffix("").as_posix(), ImageArray(path)
        elif path.suffix == ".safetensors":
            try:
                with safe_open(path, "numpy") as file:
                    names = sorted(file.keys())
            except (OSError, SafetensorError) as error:
                raise DataError(f"{path} is not a safetensors file: {one_line(error)}. Save it again.") from None
            yield from ((name, ImageArray(path, name)) for name in names)


def one_line(error: Exception) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__
