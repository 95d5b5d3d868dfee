"""Reads image annotations: COCO's format, or that of Karpathy and Fei-Fei's splits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from bench_captioning.words import words
from bench_core import DataError
from bench_text.api import corpora

Entry: TypeAlias = Mapping[str, Any]
SHOWN = 3  # of many mistakes of a kind


@dataclass(frozen=True)
class Picture:
    """An image and what is said of it."""

    id: int | str
    name: str  # its file, below the folder of images
    captions: Sequence[str] = ()  # with single spaces and no other white space; at least a word each
    split: str | None = None  # as its file calls it
    empty: int = 0  # captions without a word, which are left out


def pictures(path: Path) -> list[Picture]:
    """Read a file of either layout, in its order; raise DataError that names the file and what is wrong in it."""
    content = _parsed(path)
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise DataError(f"{path} is no file of annotations: it has no list of `images`.")
    images: list[Any] = content["images"]
    for place, image in enumerate(images):
        if not isinstance(image, dict):
            raise DataError(f"{path}: image {place} of `images`, counted from 0, is {_short(image)}, not a mapping.")
    inline = bool(images) and all("sentences" in image for image in images)
    found = [*(_of_karpathy if inline else _of_coco)(path, content)]
    repeated = _repeated([picture.id for picture in found])
    if repeated:
        raise DataError(f"{path} has images of the same id: {_listed(repeated)}. Number each by itself.")
    return found


def _parsed(path: Path) -> Any:
    text = corpora.read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is no JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise DataError(f"{path} is no file of annotations: its JSON is nested too deep.") from None


@dataclass
class _Captions:
    """What was said of one image, in order."""

    kept: list[str] = field(default_factory=list)
    empty: int = 0

    def add(self, caption: Any, where: str) -> None:
        if not isinstance(caption, str):
            raise DataError(f"{where} is {_short(caption)}, not a text.")
        plain = " ".join(caption.split())
        if words(plain):
            self.kept.append(plain)
        else:
            self.empty += 1


def _of_coco(path: Path, content: Entry) -> Iterator[Picture]:
    """Yield the images of COCO's own layout, each with the `annotations` that name it."""
    annotations = content.get("annotations")
    if not isinstance(annotations, list):
        raise DataError(f"{path} has no list of `annotations`, and its images have no `sentences`.")
    images = [(_id(image.get("id"), place, path), image) for place, image in enumerate(content["images"])]
    said = {number: _Captions() for number, _ in images}
    numbers, unknown = [], []
    for place, entry in enumerate(annotations):
        where = f"{path}: annotation {place}, counted from 0,"
        if not isinstance(entry, dict) or not {"image_id", "caption"} <= entry.keys():
            raise DataError(f"{where} is {_short(entry)}; it needs an `image_id` and a `caption`.")
        about = entry["image_id"]
        if "id" in entry:
            numbers.append(entry["id"])
        if not isinstance(about, int | str) or about not in said:
            unknown.append(about)
        else:
            said[about].add(entry["caption"], f"{where} has a `caption` that")
    if unknown:
        raise DataError(f"{path} has {len(unknown):,} captions of images that it does not list: {_listed(unknown)}.")
    repeated = _repeated(numbers)
    if repeated:
        raise DataError(f"{path} has annotations of the same id: {_listed(repeated)}. Is a part there twice?")
    for number, image in images:
        name = image.get("file_name", "")
        yield _picture(number, name, said[number], image.get("split"), path)


def _of_karpathy(path: Path, content: Entry) -> Iterator[Picture]:
    """Yield the images of Karpathy and Fei-Fei's layout, whose `sentences` stand with each of them."""
    for place, image in enumerate(content["images"]):
        number = _id(image.get("cocoid", image.get("imgid")), place, path)
        if not isinstance(image["sentences"], list):
            raise DataError(
                f"{path}: the `sentences` of image {number} are {_short(image['sentences'])}, not a list."
            )
        said = _Captions()
        for entry in image["sentences"]:
            raw = entry.get("raw") if isinstance(entry, dict) else None
            said.add(raw, f"{path}: the `raw` of a sentence of image {number}")
        name, folder = image.get("filename", ""), image.get("filepath", "")
        whole = f"{folder}/{name}" if folder else name
        yield _picture(number, whole, said, image.get("split"), path)


def _picture(number: int | str, name: Any, said: _Captions, split: Any, path: Path) -> Picture:
    if not isinstance(name, str) or "\0" in name:
        raise DataError(f"{path}: the file of image {number} is {_short(name)}, not a name.")
    if not isinstance(split, str | None):
        raise DataError(f"{path}: the `split` of image {number} is {_short(split)}, not a name.")
    return Picture(number, name, said.kept, split, said.empty)


def _id(number: Any, place: int, path: Path) -> int | str:
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise DataError(f"{path}: the id of image {place}, counted from 0, is {_short(number)}; give a number.")
    return number


def _repeated(numbers: Sequence[Any]) -> list[Any]:
    """Return what is there twice, each once; mistaken ids that cannot be compared are told by their text."""
    times = Counter(map(repr, numbers))
    return [*{repr(number): number for number in numbers if times[repr(number)] > 1}.values()]


def _listed(values: Sequence[Any]) -> str:
    more = f" and {len(values) - SHOWN:,} more" if len(values) > SHOWN else ""
    return ", ".join(_short(value) for value in values[:SHOWN]) + more


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
