"""Settings of captioning corpora and features."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from bench_core import PathOrName, Settings, kinded
from bench_text.api import by_name

Usual: TypeAlias = Literal["train", "valid", "test"]
ImageChannels: TypeAlias = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
IMAGE_CHANNELS = (32, 64, 128)  #: channels of the stages of an `ImageEncoder`


class Scenes(Settings):
    """Generated scenes of coloured shapes, five captions each; valid and test each have a tenth as many as train."""

    name: Literal["scenes"]
    images: PositiveInt = 2_000  #: number of training images
    pixels: int = Field(64, ge=32, le=512)  #: image width and height
    seed: int = 0  #: random seed


class NamedCaptions(Settings):
    """A known corpus, or a folder of the data directory."""

    name: str = Field(min_length=1)  #: corpus or folder


class OneFile(Settings):
    """Your own annotations of all splits in one file; each image names its split."""

    file: Path  #: annotations
    images: PathOrName | None = None  #: folder of the images; default: the folder of the file
    splits: Mapping[Usual, list[str]] | None = None  #: names of splits in the file; other images are skipped

    @model_validator(mode="after")
    def _apart(self) -> Self:
        homes: dict[str, str] = {}
        for split, names in (self.splits or {}).items():
            for name in names:
                if homes.setdefault(name, split) != split:
                    raise ValueError(
                        f"{name!r} is listed under both {homes[name]} and {split}; list it under one split"
                    )
        return self


class CaptionFiles(Settings):
    """Your own annotations, one file per split."""

    train: Path  #: training annotations
    valid: Path  #: annotations for choosing weights and settings
    test: Path  #: annotations to report results on
    images: PathOrName | None = None  #: folder of the images; default: the folder of each file


def _choice(value: Any) -> str:
    name, file = (
        (value.get(key) if isinstance(value, dict) else getattr(value, key, None)) for key in ("name", "file")
    )
    if name is None:
        return "files" if file is None else "file"
    return "scenes" if name == "scenes" else "named"


_Corpus: TypeAlias = Annotated[
    Annotated[Scenes, Tag("scenes")]
    | Annotated[NamedCaptions, Tag("named")]
    | Annotated[OneFile, Tag("file")]
    | Annotated[CaptionFiles, Tag("files")],
    Discriminator(_choice),
]
Corpus: TypeAlias = Annotated[
    _Corpus, BeforeValidator(by_name("annotations of your own"), json_schema_input_type=str | _Corpus)
]


class Precomputed(Settings):
    """Features from a `.npy` or `.safetensors` file: [I, D] for vectors, [I, S, D] for grids."""

    kind: Literal["precomputed"]
    path: Path  #: feature file
    ids: Path | None = None  #: image of each row: a .json list, .txt lines or .npy; default: the order of annotations
    tensor: str | None = None  #: name of the tensor, if a `.safetensors` file has several


class Pixels(Settings):
    """The pixels of images, for models that train an image encoder."""

    kind: Literal["pixels"] = "pixels"
    size: int | None = Field(None, ge=8, le=512)  #: image width and height; default: 64, or the size of the scenes

    def side(self, corpus: Corpus) -> int:
        """Return the width and height to scale images to."""
        return self.size or (corpus.pixels if isinstance(corpus, Scenes) else 64)


class FeatureFolder(Settings):
    """Features from the files of a folder, one array per image: [D] for vectors, [S, D] for grids."""

    kind: Literal["folder"] = "folder"
    folder: Path  #: .npy files named after images, or .safetensors files with tensors named after images


class ResNet(Settings):
    """Features of a frozen ResNet, with weights from a folder or random weights."""

    kind: Literal["resnet"] = "resnet"
    path: PathOrName | None = None  #: folder with config.json and model.safetensors
    size: int | None = Field(None, ge=32, le=1024)  #: image width and height; default: 224 with weights, 64 without
    widths: tuple[PositiveInt, ...] = Field((32, 128), min_length=1)  #: channels of each stage of a random network
    depths: tuple[PositiveInt, ...] | None = None  #: layers of each stage of a random network; default: one per stage
    seed: int = 0  #: seed of random weights

    @model_validator(mode="after")
    def _check(self) -> Self:
        random = {"widths", "depths", "seed"} & self.model_fields_set
        if self.path and random:
            raise ValueError(f"remove `path`, or the settings of random networks: {', '.join(sorted(random))}")
        if self.depths is not None and len(self.depths) != len(self.widths):
            lengths = f"`depths` ({len(self.depths)}) and `widths` ({len(self.widths)})"
            raise ValueError(f"{lengths} must have the same length")
        return self

    @property
    def pixels(self) -> int:
        """Return the width and height to scale images to."""
        return self.size or (224 if self.path else 64)


def _with_kind(value: Any) -> Any:
    """Read a bare word as `{kind: WORD}`, and add the kind of `{folder: ...}`."""
    return kinded("folder" if isinstance(value, dict) and "folder" in value else None)(value)


_Features: TypeAlias = Annotated[Pixels | Precomputed | FeatureFolder | ResNet, Field(discriminator="kind")]
Features: TypeAlias = Annotated[_Features, BeforeValidator(_with_kind, json_schema_input_type=str | _Features)]
Form: TypeAlias = Literal["vector", "grid"]
