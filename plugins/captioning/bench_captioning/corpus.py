"""Loads a captioning corpus: captioned images, and digests of the files read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench_captioning.annotations import SHOWN, Picture, pictures
from bench_captioning.scenes import Scene, scenes
from bench_captioning.settings import Corpus, Features, Files, Named, OneFile, Precomputed, ResNet, Scenes, Usual
from bench_core import DataError, Split
from bench_text.api import SPLITS, corpora

# What annotations call the splits. The 30,504 images that COCO's own split left over, `restval`, are trained on.
USUAL: Mapping[Usual, Sequence[str]] = {
    "train": ("train", "restval"),
    "valid": ("val", "valid", "validation", "dev"),
    "test": ("test",),
}
NONE = (None, "", "unassigned")  # of images that are in no split
WEIGHTS = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class Layout:
    """A folder of the data directory."""

    file: str  # the annotations
    images: str = "images"  # the folder of the images
    halved: bool = False  # whether every other image of val, by id, is for test
    get: str = ""  # how to come by the files, where the catalogue does not say so


KARPATHY = "of Karpathy's caption_datasets.zip there, and"
LAYOUTS: Mapping[str, Layout] = {
    "flickr8k-mini": Layout("captions_flickr8k_mini.json"),
    "coco-mini": Layout("captions_coco_mini.json", halved=True),
    "coco": Layout(
        "dataset_coco.json", ".", get=f"Put dataset_coco.json {KARPATHY} train2014/ and val2014/ beside it."
    ),
    "flickr8k": Layout("dataset_flickr8k.json", get=f"Put dataset_flickr8k.json {KARPATHY} the images into images/."),
    "flickr30k": Layout(
        "dataset_flickr30k.json", get=f"Put dataset_flickr30k.json {KARPATHY} the images into images/."
    ),
}
FOLDER = Layout("captions.json")  # one that a user added


@dataclass(frozen=True)
class Captioned:
    """Images with captions."""

    name: str  # in reports
    splits: Mapping[Split, Sequence[Picture]]
    every: Sequence[Picture]  # in the order of the files, those of no split too
    folders: Mapping[Split, Path] = field(default_factory=dict)  # where the images of a split are
    scenes: Mapping[int | str, Scene] = field(default_factory=dict)  # by the id of their picture
    pixels: int = 0  # on a side of a scene

    def check_images(self) -> None:
        """Raise DataError that names the images that are missing or empty, if there are any."""
        paths = [self.folders[split] / picture.name for split in self.folders for picture in self.splits[split]]
        wrong = [path for path in paths if not path.is_file() or not path.stat().st_size]
        if wrong:
            shown = ", ".join(map(str, wrong[:SHOWN]))
            raise DataError(
                f"{len(wrong):,} of {len(paths):,} images of {self.name} are missing or empty: {shown}"
                f"{' ...' if len(wrong) > SHOWN else ''}. Put them there, correct `images:`, or give `features:` "
                "that were computed from them."
            )


def captioned(corpus: Corpus, data: Path) -> Captioned:
    """Return a corpus; raise DataError that names the file and the image where something is wrong."""
    if isinstance(corpus, Scenes):
        return _generated(corpus)
    if isinstance(corpus, Files):
        paths = files(corpus, data)
        found = {split: pictures(path) for split, path in paths.items()}
        folders = {split: data / corpus.images if corpus.images else path.parent for split, path in paths.items()}
        return _checked(corpora.label(paths["train"]), found, [*found.values()], folders)
    path = files(corpus, data)["all"]
    listed = pictures(path)
    if isinstance(corpus, OneFile):
        folder = data / corpus.images if corpus.images else path.parent
        wanted, name = corpus.splits, corpora.label(path)
    else:
        folder, wanted, name = path.parent / _layout(corpus).images, None, corpus.name
    found = _divided(listed, wanted, path)
    if isinstance(corpus, Named) and _layout(corpus).halved and not found["test"]:
        ordered = sorted(found["valid"], key=lambda picture: str(picture.id).zfill(20))
        found |= {"valid": ordered[::2], "test": ordered[1::2]}
    return _checked(name, found, [listed], dict.fromkeys(SPLITS, folder))


def reads(corpus: Corpus, features: Features, data: Path) -> Mapping[str, str]:
    """Return the digest of each file that is read, one for all images; raise DataError if some are missing."""
    paths = [] if isinstance(corpus, Scenes) else [*files(corpus, data).values()]
    digests = corpora.digests([*paths, *feature_files(features, data)], data)
    if isinstance(features, ResNet) and not isinstance(corpus, Scenes):
        known = captioned(corpus, data)
        known.check_images()
        whole, number = sha256(), 0
        for split, folder in known.folders.items():
            for picture in known.splits[split]:
                path = folder / picture.name
                state = path.stat()
                content = _digest(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
                whole.update(f"{split} {picture.name} {content}\n".encode())
                number += 1
        digests[f"{number} images"] = whole.hexdigest()
    return digests


def files(corpus: Named | OneFile | Files, data: Path) -> dict[str, Path]:
    """Return the file of annotations of each split, or the one of all; raise DataError if it is not there."""
    if isinstance(corpus, Named):
        layout = _layout(corpus, data)
        if corpus.name in corpora.catalogue():
            return {"all": corpora.locate(corpus.name, [layout.file], data)[0]}
        path = data / corpus.name / layout.file
        if not path.is_file():
            raise DataError(f"corpus {corpus.name!r} is not complete: {path} is missing. {layout.get}".rstrip())
        return {"all": path}
    given = (
        {"all": corpus.file} if isinstance(corpus, OneFile) else {split: getattr(corpus, split) for split in SPLITS}
    )
    paths = {split: data / path for split, path in given.items()}
    corpora.check_files(paths.values(), "Correct `corpus:`.")
    return paths


def feature_files(features: Features, data: Path) -> list[Path]:
    """Return the files that features are from; raise DataError if some are missing."""
    if isinstance(features, Precomputed):
        paths = [data / features.path, *([data / features.ids] if features.ids else [])]
    else:
        paths = [data / features.path / name for name in WEIGHTS] if features.path else []
    wrong = [str(path) for path in paths if not path.is_file()]
    if wrong:
        advice = "" if isinstance(features, Precomputed) else f" A folder of weights holds {' and '.join(WEIGHTS)}."
        raise DataError(f"missing: {', '.join(wrong)}. Correct `features:`.{advice}")
    return paths


def _layout(corpus: Named, data: Path | None = None) -> Layout:
    """Return the layout of a known corpus or of a folder that the user added; raise DataError if there is none."""
    name = corpus.name
    if name in LAYOUTS:
        return LAYOUTS[name]
    if data is None or (name not in corpora.catalogue() and (data / name).is_dir()):
        return FOLDER
    raise corpora.unknown(name, [*LAYOUTS, "scenes"], "has no images", f"{FOLDER.file} and {FOLDER.images}/", data)


def _divided(
    listed: Sequence[Picture], wanted: Mapping[Usual, Sequence[str]] | None, path: Path
) -> dict[Split, list[Picture]]:
    """Return the images of each split, by the names that are wanted, else by the usual ones."""
    called = USUAL if wanted is None else wanted
    names: dict[str, str] = {name: split for split, each in called.items() for name in each}
    there = {picture.split for picture in listed}
    if wanted is None:
        unknown = sorted({str(split) for split in there - {*names, *NONE}})
        if unknown:
            first = next(picture for picture in listed if picture.split == unknown[0])
            raise DataError(
                f"{path} has images of an unknown split, {unknown[0]!r}, image {first.id} the first of them; known "
                f"are {', '.join(names)}. Give it as your own file, and say under `splits:` what each is called."
            )
    elif missing := sorted(set(names) - {str(split) for split in there}):
        known = ", ".join(sorted(str(split) for split in there))
        raise DataError(f"{path} has no images of split {', '.join(map(repr, missing))}; it has {known}.")
    return {
        split: [picture for picture in listed if names.get(picture.split or "") == split] for split in SPLITS
    }  # fmt: skip


def _checked(
    name: str,
    splits: Mapping[Split, Sequence[Picture]],
    files: Sequence[Sequence[Picture]],
    folders: Mapping[Split, Path],
) -> Captioned:
    """Return a corpus whose splits hold captioned images, each in one of them; raise DataError if they do not."""
    for split, found in splits.items():
        if not found:
            raise DataError(f"{name} has no images in its {split} split.")
        bare = [picture for picture in found if not picture.captions]
        if bare:
            shown = ", ".join(f"{picture.id} ({picture.name})" for picture in bare[:SHOWN])
            raise DataError(
                f"{len(bare):,} of {len(found):,} images in the {split} split of {name} have no caption with a word: "
                f"{shown}{' ...' if len(bare) > SHOWN else ''}. Give them captions, or take them out."
            )
    homes: dict[tuple[int | str, str], Split] = {}
    for split, found in splits.items():
        for picture in found:
            other = homes.setdefault((picture.id, picture.name), split)
            if other != split:
                raise DataError(f"image {picture.id} ({picture.name}) of {name} is in {other} and in {split}.")
    return Captioned(name, splits, [picture for each in files for picture in each], folders)


def _generated(settings: Scenes) -> Captioned:
    found: dict[Split, list[Picture]] = {}
    known: dict[int | str, Scene] = {}
    for split, drawn in scenes(settings).items():
        found[split] = [Picture(len(known) + place, str(scene), scene.captions) for place, scene in enumerate(drawn)]
        known |= {picture.id: scene for picture, scene in zip(found[split], drawn, strict=True)}
    name = f"scenes (images {settings.images}, pixels {settings.pixels}, seed {settings.seed})"
    every = [picture for pictures in found.values() for picture in pictures]
    return Captioned(name, found, every, scenes=known, pixels=settings.pixels)


@lru_cache(2**18)
def _digest(path: Path, *state: Any) -> str:
    """Return the digest of an image; plans ask for it again and again."""
    return corpora.digest(path)
