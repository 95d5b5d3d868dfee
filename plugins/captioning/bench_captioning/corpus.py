"""Loads a captioning corpus, and computes digests of the files read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench_captioning.annotations import MAX_LISTED, CaptionedImage, pictures
from bench_captioning.scenes import Scene, scenes
from bench_captioning.settings import (
    CaptionFiles,
    Corpus,
    FeatureFolder,
    Features,
    NamedCaptions,
    OneFile,
    Pixels,
    Precomputed,
    ResNet,
    Scenes,
    Usual,
)
from bench_core import DataError, Split
from bench_text.api import SPLITS, corpora

# Split names in annotations. `restval`, the 30,504 images left over by COCO's own split, is used for training.
SPLIT_NAMES: Mapping[Usual, Sequence[str]] = {
    "train": ("train", "restval"),
    "valid": ("val", "valid", "validation", "dev"),
    "test": ("test",),
}
NO_SPLIT = (None, "", "unassigned")  # images that belong to no split
WEIGHTS = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class CorpusFolder:
    """Files of a corpus in a folder of the data directory."""

    file: str  # annotations
    images: str = "images"  # folder of the images
    halved: bool = False  # whether every other image of val, by id, belongs to test
    get: str = ""  # how to obtain the files, unless the catalogue says so


KARPATHY = "of Karpathy's caption_datasets.zip there, and"
LAYOUTS: Mapping[str, CorpusFolder] = {
    "flickr8k-mini": CorpusFolder("captions_flickr8k_mini.json"),
    "coco-mini": CorpusFolder("captions_coco_mini.json", halved=True),
    "coco": CorpusFolder(
        "dataset_coco.json", ".", get=f"Put dataset_coco.json {KARPATHY} train2014/ and val2014/ beside it."
    ),
    "flickr8k": CorpusFolder(
        "dataset_flickr8k.json", get=f"Put dataset_flickr8k.json {KARPATHY} the images into images/."
    ),
    "flickr30k": CorpusFolder(
        "dataset_flickr30k.json", get=f"Put dataset_flickr30k.json {KARPATHY} the images into images/."
    ),
}
FOLDER = CorpusFolder("captions.json")  # a folder added by the user


@dataclass(frozen=True)
class CaptionCorpus:
    """Images with captions."""

    name: str  # shown in reports
    splits: Mapping[Split, Sequence[CaptionedImage]]
    every: Sequence[CaptionedImage]  # file order, including images without a split
    folders: Mapping[Split, Path] = field(default_factory=dict)  # image folder per split
    scenes: Mapping[int | str, Scene] = field(default_factory=dict)  # image id -> scene
    pixels: int = 0  # width and height of a scene

    def check_images(self) -> None:
        """Raise DataError if image files are missing or empty, naming them."""
        paths = [self.folders[split] / picture.name for split in self.folders for picture in self.splits[split]]
        wrong = [path for path in paths if not path.is_file() or not path.stat().st_size]
        if wrong:
            shown = ", ".join(map(str, wrong[:MAX_LISTED]))
            raise DataError(
                f"{len(wrong):,} of {len(paths):,} images of {self.name} are missing or empty: {shown}"
                f"{' ...' if len(wrong) > MAX_LISTED else ''}. Add them, correct `images:`, or set `features:` to "
                "features computed from them."
            )


def load_corpus(corpus: Corpus, data: Path) -> CaptionCorpus:
    """Load a corpus; raise DataError that names the file and image of an error."""
    if isinstance(corpus, Scenes):
        return _generate(corpus)
    if isinstance(corpus, CaptionFiles):
        paths = files(corpus, data)
        splits = {split: pictures(path) for split, path in paths.items()}
        folders = {split: data / corpus.images if corpus.images else path.parent for split, path in paths.items()}
        return _check_splits(corpora.label(paths["train"]), splits, [*splits.values()], folders)
    path = files(corpus, data)["all"]
    images = pictures(path)
    if isinstance(corpus, OneFile):
        folder = data / corpus.images if corpus.images else path.parent
        wanted, name = corpus.splits, corpora.label(path)
    else:
        folder, wanted, name = path.parent / _layout(corpus).images, None, corpus.name
    splits = _split_pictures(images, wanted, path)
    if isinstance(corpus, NamedCaptions) and _layout(corpus).halved and not splits["test"]:
        ordered = sorted(splits["valid"], key=lambda picture: str(picture.id).zfill(20))
        splits |= {"valid": ordered[::2], "test": ordered[1::2]}
    return _check_splits(name, splits, [images], dict.fromkeys(SPLITS, folder))


def reads(corpus: Corpus, features: Features, data: Path) -> Mapping[str, str]:
    """Return the digest of each file read, and of the images in each folder; raise DataError if files are missing.

    The folder of a `FeatureFolder` is omitted: the core digests it, because it is a setting of type `Path`.
    """
    paths = [] if isinstance(corpus, Scenes) else [*files(corpus, data).values()]
    files_of_features = feature_files(features, data)
    digests = corpora.digests([*paths, *(path for path in files_of_features if not path.is_dir())], data)
    if isinstance(features, ResNet | Pixels) and not isinstance(corpus, Scenes):
        digests |= _image_digests(load_corpus(corpus, data), data)
    return digests


def _image_digests(images: CaptionCorpus, data: Path) -> dict[str, str]:
    """Return one digest for the images of each folder; images in the data directory itself are listed one by one."""
    images.check_images()
    wholes: dict[Path, Any] = {}
    for split, folder in images.folders.items():
        for picture in images.splits[split]:
            path = folder / picture.name
            state = path.stat()
            content = _digest(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
            place = path if data.is_relative_to(path.parent) else path.parent
            wholes.setdefault(place, sha256()).update(f"{split} {picture.name} {content}\n".encode())
    names = {place: place.relative_to(data) if place.is_relative_to(data) else place for place in wholes}
    return {str(names[place]): whole.hexdigest() for place, whole in wholes.items()}


def files(corpus: NamedCaptions | OneFile | CaptionFiles, data: Path) -> dict[str, Path]:
    """Return the annotation file of each split, or of all splits; raise DataError if it does not exist."""
    if isinstance(corpus, NamedCaptions):
        layout = _layout(corpus, data)
        if corpus.name in corpora.catalogue():
            return {"all": corpora.locate(corpus.name, [layout.file], data)[0]}
        path = data / corpus.name / layout.file
        if not path.is_file():
            raise DataError(f"corpus {corpus.name!r} is not complete: {path} is missing. {layout.get}".rstrip())
        return {"all": path}
    named = (
        {"all": corpus.file} if isinstance(corpus, OneFile) else {split: getattr(corpus, split) for split in SPLITS}
    )
    paths = {split: data / path for split, path in named.items()}
    corpora.check_files(paths.values(), "Correct `corpus:`.")
    return paths


def feature_files(features: Features, data: Path) -> list[Path]:
    """Return the files or the folder of the features; raise DataError if some are missing."""
    advice = ""
    match features:
        case Precomputed(path=path, ids=ids):
            paths = [data / path, *([data / ids] if ids else [])]
        case FeatureFolder(folder=folder):
            paths = [data / folder]
        case ResNet(path=str(weights)):
            paths = [data / weights / name for name in WEIGHTS]
            advice = f" A folder of weights holds {' and '.join(WEIGHTS)}."
        case _:
            paths = []
    is_there = Path.is_dir if isinstance(features, FeatureFolder) else Path.is_file
    wrong = [str(path) for path in paths if not is_there(path)]
    if wrong:
        raise DataError(f"missing: {', '.join(wrong)}. Correct `features:`.{advice}")
    return paths


def _layout(corpus: NamedCaptions, data: Path | None = None) -> CorpusFolder:
    """Return the layout of a known corpus or of a user's folder; raise DataError if neither exists."""
    name = corpus.name
    if name in LAYOUTS:
        return LAYOUTS[name]
    if data is None or (name not in corpora.catalogue() and (data / name).is_dir()):
        return FOLDER
    raise corpora.unknown(name, [*LAYOUTS, "scenes"], "has no images", f"{FOLDER.file} and {FOLDER.images}/", data)


def _split_pictures(
    images: Sequence[CaptionedImage], wanted: Mapping[Usual, Sequence[str]] | None, path: Path
) -> dict[Split, list[CaptionedImage]]:
    """Return the images of each split, using the split names in `wanted`, or else the usual names."""
    split_names = SPLIT_NAMES if wanted is None else wanted
    names: dict[str, str] = {name: split for split, each in split_names.items() for name in each}
    present = {picture.split for picture in images}
    if wanted is None:
        unknown = sorted({str(split) for split in present - {*names, *NO_SPLIT}})
        if unknown:
            first = next(picture for picture in images if picture.split == unknown[0])
            raise DataError(
                f"{path} has images of an unknown split, {unknown[0]!r}, such as image {first.id}; known splits "
                f"are {', '.join(names)}. Use `corpus: {{file: ...}}`, and map its names to splits with `splits:`."
            )
    elif missing := sorted(set(names) - {str(split) for split in present}):
        known = ", ".join(sorted(str(split) for split in present))
        raise DataError(f"{path} has images of {known}, not of {', '.join(map(repr, missing))}. Correct `splits:`.")
    return {
        split: [picture for picture in images if names.get(picture.split or "") == split] for split in SPLITS
    }  # fmt: skip


def _check_splits(
    name: str,
    splits: Mapping[Split, Sequence[CaptionedImage]],
    files: Sequence[Sequence[CaptionedImage]],
    folders: Mapping[Split, Path],
) -> CaptionCorpus:
    """Return the corpus; raise DataError if a split is empty, or an image has no caption or is in several splits."""
    for split, images in splits.items():
        if not images:
            raise DataError(f"{name} has no images in its {split} split. Add some, or use another corpus.")
        bare = [picture for picture in images if not picture.captions]
        if bare:
            shown = ", ".join(f"{picture.id} ({picture.name})" for picture in bare[:MAX_LISTED])
            raise DataError(
                f"{len(bare):,} of {len(images):,} images in the {split} split of {name} have no caption with a "
                f"word: {shown}{' ...' if len(bare) > MAX_LISTED else ''}. Add captions, or remove the images."
            )
    homes: dict[tuple[int | str, str], Split] = {}
    for split, images in splits.items():
        for picture in images:
            other = homes.setdefault((picture.id, picture.name), split)
            if other != split:
                raise DataError(f"image {picture.id} ({picture.name}) of {name} is in both {other} and {split}.")
    return CaptionCorpus(name, splits, [picture for each in files for picture in each], folders)


def _generate(settings: Scenes) -> CaptionCorpus:
    splits: dict[Split, list[CaptionedImage]] = {}
    known: dict[int | str, Scene] = {}
    for split, sample in scenes(settings).items():
        splits[split] = [
            CaptionedImage(len(known) + place, str(scene), scene.captions) for place, scene in enumerate(sample)
        ]
        known |= {picture.id: scene for picture, scene in zip(splits[split], sample, strict=True)}
    name = f"scenes (images {settings.images}, pixels {settings.pixels}, seed {settings.seed})"
    every = [picture for pictures in splits.values() for picture in pictures]
    return CaptionCorpus(name, splits, every, scenes=known, pixels=settings.pixels)


@lru_cache(2**18)
def _digest(path: Path, *state: Any) -> str:
    """Return the digest of an image; cached, since plans request it repeatedly."""
    return corpora.digest(path)
