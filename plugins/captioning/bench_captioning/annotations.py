"""Reads image annotations in COCO's format, or in the format of Karpathy and Fei-Fei's splits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from unicodedata import normalize

from bench_captioning.words import words
from bench_core import DataError
from bench_text.api import corpora

Entry: TypeAlias = Mapping[str, Any]
MAX_LISTED = 3  # maximum examples of an error in a message


@dataclass(frozen=True)
class CaptionedImage:
    """An image with its captions."""

    id: int | str
    name: str  # file, relative to the folder of images
    captions: Sequence[str] = ()  # in NFC, with single spaces; at least one word each
    split: str | None = None  # as named in the file
    empty: int = 0  # number of captions without a word, which are skipped


def pictures(path: Path) -> list[CaptionedImage]:
    """Return the images of a file in COCO's or Karpathy's layout, in file order; raise DataError for invalid ones."""
    content = _parse(path)
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise DataError(f"{path} is not an annotation file: it has no list of `images`.")
    images: list[Any] = content["images"]
    for place, image in enumerate(images):
        if not isinstance(image, dict):
            raise DataError(f"{path}: image {place} of `images`, counted from 0, is {_short(image)}, not a mapping.")
    inline = bool(images) and all("sentences" in image for image in images)
    images_read = [*(_of_karpathy if inline else _of_coco)(path, content)]
    duplicates = _duplicates([picture.id for picture in images_read])
    if duplicates:
        raise DataError(f"{path} has several images with the same id: {_join_values(duplicates)}. Make ids unique.")
    return images_read


def _parse(path: Path) -> Any:
    text = corpora.read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise DataError(f"{path} is not an annotation file: its JSON is nested too deeply.") from None


@dataclass
class _CaptionList:
    """Captions of an image, in order."""

    texts: list[str] = field(default_factory=list)
    empty: int = 0

    def add(self, caption: Any, where: str) -> None:
        if not isinstance(caption, str):
            raise DataError(f"{where} is {_short(caption)}, not text.")
        plain = " ".join(normalize("NFC", caption).split())
        if words(plain):
            self.texts.append(plain)
        else:
            self.empty += 1


def _of_coco(path: Path, content: Entry) -> Iterator[CaptionedImage]:
    """Yield the images of COCO's layout, with the `annotations` that refer to them."""
    annotations = content.get("annotations")
    if not isinstance(annotations, list):
        raise DataError(f"{path} has no list of `annotations`, and its images have no `sentences`.")
    images = [(_id(image.get("id"), place, path), image) for place, image in enumerate(content["images"])]
    captions = {number: _CaptionList() for number, _ in images}
    numbers, unknown = [], []
    for place, entry in enumerate(annotations):
        where = f"{path}: annotation {place}, counted from 0,"
        if not isinstance(entry, dict) or not {"image_id", "caption"} <= entry.keys():
            raise DataError(f"{where} is {_short(entry)}; it needs an `image_id` and a `caption`.")
        image_id = entry["image_id"]
        if "id" in entry:
            numbers.append(entry["id"])
        if not isinstance(image_id, int | str) or image_id not in captions:
            unknown.append(image_id)
        else:
            captions[image_id].add(entry["caption"], f"{where} has a `caption` that")
    if unknown:
        raise DataError(
            f"{path} has {len(unknown):,} captions of images that are not in `images`: {_join_values(unknown)}."
        )
    duplicates = _duplicates(numbers)
    if duplicates:
        raise DataError(
            f"{path} has several annotations with the same id: {_join_values(duplicates)}. Make ids unique."
        )
    for number, image in images:
        name = image.get("file_name", "")
        yield _picture(number, name, captions[number], image.get("split"), path)


def _of_karpathy(path: Path, content: Entry) -> Iterator[CaptionedImage]:
    """Yield the images of Karpathy and Fei-Fei's layout, which contain their `sentences`."""
    for place, image in enumerate(content["images"]):
        number = _id(image.get("cocoid", image.get("imgid")), place, path)
        if not isinstance(image["sentences"], list):
            raise DataError(
                f"{path}: the `sentences` of image {number} are {_short(image['sentences'])}, not a list."
            )
        captions = _CaptionList()
        for entry in image["sentences"]:
            raw = entry.get("raw") if isinstance(entry, dict) else None
            captions.add(raw, f"{path}: the `raw` of a sentence of image {number}")
        name, folder = image.get("filename", ""), image.get("filepath", "")
        whole = f"{folder}/{name}" if folder else name
        yield _picture(number, whole, captions, image.get("split"), path)


def _picture(number: int | str, name: Any, captions: _CaptionList, split: Any, path: Path) -> CaptionedImage:
    if not isinstance(name, str) or "\0" in name:
        raise DataError(f"{path}: the file of image {number} is {_short(name)}, not a name.")
    if not isinstance(split, str | None):
        raise DataError(f"{path}: the `split` of image {number} is {_short(split)}, not a name.")
    return CaptionedImage(number, name, captions.texts, split, captions.empty)


def _id(number: Any, place: int, path: Path) -> int | str:
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise DataError(f"{path}: the id of image {place}, counted from 0, is {_short(number)}; use a number.")
    return number


def _duplicates(numbers: Sequence[Any]) -> list[Any]:
    """Return each duplicate value once; ids of the wrong type are compared by their text."""
    counts = Counter(map(repr, numbers))
    return [*{repr(number): number for number in numbers if counts[repr(number)] > 1}.values()]


def _join_values(values: Sequence[Any]) -> str:
    more = f" and {len(values) - MAX_LISTED:,} more" if len(values) > MAX_LISTED else ""
    return ", ".join(_short(value) for value in values[:MAX_LISTED]) + more


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
