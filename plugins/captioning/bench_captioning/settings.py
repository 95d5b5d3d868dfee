"""The settings of captioning corpora and features."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from bench_core import PathOrName, Settings, kinded
from bench_text.api import by_name

Usual: TypeAlias = Literal["train", "valid", "test"]


class Scenes(Settings):
    """Generated scenes of coloured shapes, five captions each; valid and test have a tenth of the training images."""

    name: Literal["scenes"]
    images: PositiveInt = 2_000  #: to train on
    pixels: int = Field(64, ge=32, le=512)  #: on a side
    seed: int = 0  #: of what is drawn


class Named(Settings):
    """A known corpus, or a folder of the data directory."""

    name: str = Field(min_length=1)  #: of the corpus or of the folder


class OneFile(Settings):
    """A user's own annotations of all splits, as each image says."""

    file: Path  #: the annotations
    images: PathOrName | None = None  #: the folder of the images; by default that of the file
    splits: Mapping[Usual, list[str]] | None = None  #: what they are called there; images of others are left out

    @model_validator(mode="after")
    def _apart(self) -> Self:
        homes: dict[str, str] = {}
        for split, names in (self.splits or {}).items():
            for name in names:
                if homes.setdefault(name, split) != split:
                    raise ValueError(
                        f"{name!r} stands under {homes[name]} and under {split}: images are in one split"
                    )
        return self


class Files(Settings):
    """A user's own annotations, a file for each split."""

    train: Path  #: annotations to train on
    valid: Path  #: annotations to choose weights and settings by
    test: Path  #: annotations to report on
    images: PathOrName | None = None  #: the folder of the images; by default that of each file


def _choice(value: Any) -> str:
    name, file = (
        (value.get(key) if isinstance(value, dict) else getattr(value, key, None)) for key in ("name", "file")
    )
    if name is None:
        return "files" if file is None else "file"
    return "scenes" if name == "scenes" else "named"


_Corpus: TypeAlias = Annotated[
    Annotated[Scenes, Tag("scenes")]
    | Annotated[Named, Tag("named")]
    | Annotated[OneFile, Tag("file")]
    | Annotated[Files, Tag("files")],
    Discriminator(_choice),
]
Corpus: TypeAlias = Annotated[
    _Corpus, BeforeValidator(by_name("annotations of your own"), json_schema_input_type=str | _Corpus)
]


class Precomputed(Settings):
    """Features from a file, `.npy` or `.safetensors`: [I, D] for vectors, [I, S, D] for grids."""

    kind: Literal["precomputed"]
    path: Path  #: of the file
    ids: Path | None = None  #: the image of each row: a .json list, .txt lines, .npy; else as annotated
    tensor: str | None = None  #: its name, where a `.safetensors` file has several


class ResNet(Settings):
    """Features by a frozen ResNet: with the weights in a folder, else with random ones."""

    kind: Literal["resnet"] = "resnet"
    path: PathOrName | None = None  #: a folder with config.json and model.safetensors
    size: int | None = Field(None, ge=32, le=1024)  #: pixels on a side; 224 with weights, 64 without
    widths: tuple[PositiveInt, ...] = Field((32, 128), min_length=1)  #: channels of each stage, if random
    depths: tuple[PositiveInt, ...] | None = None  #: layers of each stage, if random; by default one
    seed: int = 0  #: of random weights

    @model_validator(mode="after")
    def _check(self) -> Self:
        random = {"widths", "depths", "seed"} & self.model_fields_set
        if self.path and random:
            raise ValueError(f"{', '.join(sorted(random))} is of random networks, and `path` names weights")
        if self.depths is not None and len(self.depths) != len(self.widths):
            raise ValueError(f"`depths` has {len(self.depths)} stages and `widths` {len(self.widths)}")
        return self

    @property
    def pixels(self) -> int:
        """Return how large images are made."""
        return self.size or (224 if self.path else 64)


_Features: TypeAlias = Annotated[Precomputed | ResNet, Field(discriminator="kind")]
Features: TypeAlias = Annotated[_Features, BeforeValidator(kinded(), json_schema_input_type=str | _Features)]
