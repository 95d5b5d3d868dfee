"""Precomputed features, read from a file or a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import splitext
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench_captioning.annotations import MAX_LISTED, CaptionedImage
from bench_captioning.corpus import CaptionCorpus, feature_files
from bench_captioning.feature_files import CHUNK, FeatureInfo, open_features
from bench_captioning.feature_folder import ImageArrays, one_line
from bench_captioning.settings import FeatureFolder, Precomputed
from bench_core import DataError, Split
from bench_text.api import corpora

ReadRows: TypeAlias = Callable[[Sequence[int]], NDArray[Any]]  # from row numbers to features
DIMENSIONS = {"vector": ("[I, D]", 2), "grid": ("[I, S, D]", 3)}


@dataclass(frozen=True)
class FeatureTable:
    """The features of a corpus, and the rows of its images."""

    path: Path  # file or folder
    shape: tuple[int, ...]  # shape of one image's features
    read: ReadRows
    wanted: Mapping[Split, Sequence[int]]  # rows of each split's images
    splits: Mapping[Split, Sequence[CaptionedImage]]

    @classmethod
    def of(cls, settings: Precomputed | FeatureFolder, form: str, corpus: CaptionCorpus, data: Path) -> FeatureTable:
        """Open features; raise DataError if they do not fit the form or the images."""
        path, *named = feature_files(settings, data)
        if isinstance(settings, FeatureFolder):
            arrays = ImageArrays.of(path)
            places: dict[str, int] = {name: place for place, name in enumerate(arrays.names)}
            shape: tuple[int, ...] = arrays.shape
            read: ReadRows = arrays.read
        else:
            shape, read = _table(path, settings.tensor)
            places = _places(named[0] if named else None, shape[0], corpus, path)
        needed, dimensions = DIMENSIONS[form]
        if len(shape) != dimensions or 0 in shape:
            raise DataError(
                f"{path} holds features of shape {list(shape)}, but `form: {form}` needs {needed} without zeros. "
                "Choose the other form, or recompute the features."
            )
        wanted = {split: _rows_of(split, pictures, places, path) for split, pictures in corpus.splits.items()}
        return cls(path, shape[1:], read, wanted, corpus.splits)

    def rows(self, split: Split) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the index of each chunk's first image, and its features; raise DataError unless all are finite."""
        wanted = self.wanted[split]
        for start in range(0, len(wanted), CHUNK):
            rows = self.read(wanted[start : start + CHUNK]).astype(np.float32)
            finite = np.isfinite(rows).reshape(len(rows), -1).all(1)
            if not finite.all():
                picture = self.splits[split][start + int(finite.argmin())]
                raise DataError(
                    f"{self.path}: the features of image {picture.id} ({picture.name}) are not all "
                    "finite in float32. Recompute them."
                )
            yield start, rows


def _rows_of(split: Split, pictures: Sequence[CaptionedImage], places: Mapping[str, int], path: Path) -> list[int]:
    """Return the row of each image, by id or file name; raise DataError naming images without a row or with two."""
    rows = [
        {places[name] for name in (str(picture.id), picture.name, splitext(picture.name)[0]) if name in places}
        for picture in pictures
    ]
    missing = [picture for picture, each in zip(pictures, rows, strict=True) if not each]
    if missing:
        shown = ", ".join(f"{picture.id} ({picture.name})" for picture in missing[:MAX_LISTED])
        raise DataError(
            f"{path} has no features for {len(missing):,} of {len(pictures):,} images of {split}: {shown}"
            f"{' ...' if len(missing) > MAX_LISTED else ''}. Add them, or correct their names."
        )
    for picture, each in zip(pictures, rows, strict=True):
        if len(each) > 1:
            raise DataError(
                f"{path} has features named {picture.id} and others named {picture.name}, which are one image. Name "
                "all features by id, or all by file."
            )
    return [min(each) for each in rows]


def copy_features(
    settings: Precomputed | FeatureFolder, form: str, corpus: CaptionCorpus, data: Path, folder: Path
) -> FeatureInfo:
    """Copy the rows of each split's images; raise DataError if features do not fit the form or the images."""
    source = FeatureTable.of(settings, form, corpus, data)
    for split, wanted in source.wanted.items():
        table = open_features(folder, split, (len(wanted), *source.shape))
        for start, rows in source.rows(split):
            table[start : start + len(rows)] = rows
    path = source.path
    return FeatureInfo(source.shape, f"the folder {path.name}" if path.is_dir() else corpora.label(path))


def _table(path: Path, name: str | None) -> tuple[tuple[int, ...], ReadRows]:
    """Return the shape of a file's features, and a function that reads selected rows only."""
    if path.suffix == ".safetensors":
        return _of_safetensors(path, name)
    if path.suffix != ".npy":
        raise DataError(f"{path} is neither .npy nor .safetensors. Save the features in one of these formats.")
    try:
        table = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array of numbers: {one_line(error)}. Save it again.") from None
    if table.dtype.kind != "f":
        raise DataError(f"{path} holds {table.dtype}, not floating-point numbers. Save it as float32.")
    return table.shape, lambda rows: np.asarray(table[np.asarray(rows)])


def _of_safetensors(path: Path, name: str | None) -> tuple[tuple[int, ...], ReadRows]:
    from safetensors import SafetensorError, safe_open

    file: Any
    try:
        file = safe_open(path, "numpy")
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} is not a safetensors file: {one_line(error)}. Save it again.") from None
    names = list(file.keys())
    if name is None and len(names) == 1:
        (name,) = names
    if name not in names:
        problem = "several tensors" if name is None else f"no tensor {name!r}"
        raise DataError(
            f"{path} has {problem}: {', '.join(names) or 'none'}. Set the `tensor` of the features to one of them."
        )
    table = file.get_slice(name)
    if table.get_dtype() not in ("F16", "F32", "F64"):
        raise DataError(f"{path}: {name!r} has type {table.get_dtype()}. Save it as F16, F32 or F64.")
    return tuple(table.get_shape()), lambda rows: np.concatenate([table[row : row + 1] for row in rows])


def _places(path: Path | None, rows: int, corpus: CaptionCorpus, table: Path) -> dict[str, int]:
    """Return the row of each image, by id or file name."""
    if path is None:
        if rows != len(corpus.every):
            raise DataError(
                f"{table} has {rows:,} rows, but {corpus.name} has {len(corpus.every):,} images. Provide one row per "
                "image, in the order of the annotations, or set `ids:` to a file that names the image of each row."
            )
        return {str(picture.id): place for place, picture in enumerate(corpus.every)}
    ids = _ids(path)
    if len(ids) != rows:
        raise DataError(
            f"{path} names {len(ids):,} images, but {table} has {rows:,} rows. Name the image of each row."
        )
    row_of = {name: place for place, name in enumerate(ids)}
    if len(row_of) < rows:
        twice = next(name for place, name in enumerate(ids) if row_of[name] != place)
        raise DataError(f"{path} names image {twice!r} twice. Name each image once.")
    return row_of


def _ids(path: Path) -> list[str]:
    """Return the image id of each row, as text."""
    try:
        if path.suffix == ".npy":
            ids = np.load(path, allow_pickle=False).tolist()
        elif path.suffix == ".json":
            ids = json.loads(corpora.read_text(path))
        else:
            ids = [line.strip() for line in corpora.read_lines(path)]
    except (ValueError, EOFError, OSError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}. Save it as .json, .txt or .npy.") from None
    if not isinstance(ids, list) or not all(isinstance(each, int | str) for each in ids):
        raise DataError(f"{path} is not a list of ids. Provide an image number or file name per row.")
    return [str(each) for each in ids]
