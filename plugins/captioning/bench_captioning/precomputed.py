"""Precomputed features, read from a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_captioning.annotations import SHOWN, Picture
from bench_captioning.corpus import Captioned, feature_files
from bench_captioning.feature_files import CHUNK, Described, opened
from bench_captioning.settings import Precomputed
from bench_core import DataError, Split
from bench_text.api import corpora

Rows: TypeAlias = Callable[[Sequence[int]], NDArray[Any]]  # from places to features
DIMENSIONS = {"vector": ("[I, D]", 2), "grid": ("[I, S, D]", 3)}


@dataclass(frozen=True)
class Table:
    """The file of features of a corpus, with a row for each image of its splits."""

    path: Path
    shape: tuple[int, ...]  # of the features of an image
    read: Rows
    wanted: Mapping[Split, Sequence[int]]  # the rows of the images of each split
    splits: Mapping[Split, Sequence[Picture]]

    @classmethod
    def of(cls, settings: Precomputed, form: str, corpus: Captioned, data: Path) -> Table:
        """Open a file; raise DataError where it does not fit form or images."""
        path, *named = feature_files(settings, data)
        shape, read = _table(path, settings.tensor)
        written, dimensions = DIMENSIONS[form]
        if len(shape) != dimensions or 0 in shape:
            raise DataError(
                f"{path} holds features of shape {list(shape)}; `form: {form}` needs {written}, none of them 0. "
                "Choose the other form, or compute them anew."
            )
        places = _places(named[0] if named else None, shape[0], corpus, path)
        wanted = {split: _wanted(split, pictures, places, path) for split, pictures in corpus.splits.items()}
        return cls(path, shape[1:], read, wanted, corpus.splits)

    def rows(self, split: Split) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield places in a split, and the features of the images from there on; raise DataError unless finite."""
        wanted = self.wanted[split]
        for start in range(0, len(wanted), CHUNK):
            rows = self.read(wanted[start : start + CHUNK]).astype(np.float32)
            finite = np.isfinite(rows).reshape(len(rows), -1).all(1)
            if not finite.all():
                picture = self.splits[split][start + int(finite.argmin())]
                raise DataError(
                    f"{self.path}: the features of image {picture.id} ({picture.name}) hold a number that is not "
                    "finite in float32."
                )
            yield start, rows


def _wanted(split: Split, pictures: Sequence[Picture], places: Mapping[str, int], path: Path) -> list[int]:
    """Return the row of each image; raise DataError that names those without one."""
    missing = [picture for picture in pictures if str(picture.id) not in places and picture.name not in places]
    if missing:
        shown = ", ".join(f"{picture.id} ({picture.name})" for picture in missing[:SHOWN])
        raise DataError(
            f"{path} has no features of {len(missing):,} of {len(pictures):,} images of {split}: {shown}"
            f"{' ...' if len(missing) > SHOWN else ''}. Compute them too, or correct `ids:`."
        )
    return [places.get(str(picture.id), places.get(picture.name, -1)) for picture in pictures]


def copied(settings: Precomputed, form: str, corpus: Captioned, data: Path, folder: Path) -> Described:
    """Copy the rows of each split's images; raise DataError where the file does not fit form or images."""
    source = Table.of(settings, form, corpus, data)
    for split, wanted in source.wanted.items():
        table = opened(folder, split, (len(wanted), *source.shape))
        for start, rows in source.rows(split):
            table[start : start + len(rows)] = rows
    return Described(source.shape, f"{source.path.name} ({corpora.digest(source.path)[:8]})")


def _table(path: Path, name: str | None) -> tuple[tuple[int, ...], Rows]:
    """Return the shape of a file's features, and how to read rows; no more than these are read."""
    if path.suffix == ".safetensors":
        return _of_safetensors(path, name)
    if path.suffix != ".npy":
        raise DataError(f"{path} is neither .npy nor .safetensors. Save the features as one of them.")
    try:
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array of numbers: {_line(error)}") from None
    if table.dtype.kind != "f":
        raise DataError(f"{path} holds {table.dtype}, not floating-point numbers.")
    return table.shape, lambda rows: np.asarray(table[np.asarray(rows)])


def _of_safetensors(path: Path, name: str | None) -> tuple[tuple[int, ...], Rows]:
    from safetensors import SafetensorError, safe_open

    file: Any
    try:
        file = safe_open(path, "numpy")
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} is no safetensors file: {_line(error)}") from None
    names = list(file.keys())
    if name is None and len(names) == 1:
        (name,) = names
    if name not in names:
        asked = "several tensors" if name is None else f"no tensor {name!r}"
        raise DataError(f"{path} has {asked}: {', '.join(names) or 'none'}. Name one as `tensor:` of the features.")
    table = file.get_slice(name)
    if table.get_dtype() not in ("F16", "F32", "F64"):
        raise DataError(f"{path}: {name!r} holds {table.get_dtype()}; save it as F16, F32 or F64.")
    return tuple(table.get_shape()), lambda rows: np.concatenate([table[row : row + 1] for row in rows])


def _places(path: Path | None, rows: int, corpus: Captioned, table: Path) -> dict[str, int]:
    """Return the row of each image, by id or by file."""
    if path is None:
        if rows != len(corpus.every):
            raise DataError(
                f"{table} has {rows:,} rows, and {corpus.name} has {len(corpus.every):,} images. Give a row for "
                "each, in the order of the annotations, or say as `ids:` which file names the image of each row."
            )
        return {str(picture.id): place for place, picture in enumerate(corpus.every)}
    ids = _ids(path)
    if len(ids) != rows:
        raise DataError(
            f"{path} names {len(ids):,} images, and {table} has {rows:,} rows. Name the image of each row."
        )
    found = {name: place for place, name in enumerate(ids)}
    if len(found) < rows:
        twice = next(name for place, name in enumerate(ids) if found[name] != place)
        raise DataError(f"{path} names image {twice!r} twice. Name each once.")
    return found


def _ids(path: Path) -> list[str]:
    """Return the image of each row, as text."""
    try:
        if path.suffix == ".npy":
            ids = np.load(path, allow_pickle=False).tolist()
        elif path.suffix == ".json":
            ids = json.loads(corpora.read_text(path))
        else:
            ids = [line.strip() for line in corpora.read_lines(path)]
    except (ValueError, EOFError, OSError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {_line(error)}") from None
    if not isinstance(ids, list) or not all(isinstance(each, int | str) for each in ids):
        raise DataError(f"{path} is no list of ids. Give a number or the name of a file for each row.")
    return [str(each) for each in ids]


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
