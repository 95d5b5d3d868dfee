"""Opens the images of a corpus as squares of one size, and stores their pixels for models with an image encoder."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench_captioning.annotations import CaptionedImage
from bench_captioning.corpus import CaptionCorpus
from bench_captioning.drawing import Pixels, render
from bench_captioning.feature_files import FeatureInfo, open_features
from bench_core import DataError, Split

if TYPE_CHECKING:
    from PIL.Image import Image

WHITE = (255, 255, 255, 255)


def store_pixels(size: int, corpus: CaptionCorpus, folder: Path) -> FeatureInfo:
    """Write the pixels [I, 3, size, size] of each split's images, uint8; raise DataError that names broken images."""
    corpus.check_images()
    for split, pictures in corpus.splits.items():
        table = open_features(folder, split, (len(pictures), 3, size, size), np.uint8)
        for place, picture in enumerate(pictures):
            table[place] = load_square(corpus, split, picture, size).transpose(2, 0, 1)
    return FeatureInfo((3, size, size), f"pixels of images, {size} x {size}")


def load_square(corpus: CaptionCorpus, split: Split, picture: CaptionedImage, size: int) -> Pixels:
    """Return an image whose shorter side is scaled to `size` and whose middle square is cropped [size, size, 3]."""
    if not corpus.scenes:
        return _square(_open(corpus.folders[split] / picture.name, picture), size)
    drawn = render(corpus.scenes[picture.id], corpus.pixels)
    if corpus.pixels == size:
        return drawn
    from PIL import Image

    return _square(Image.fromarray(drawn), size)


def _open(path: Path, picture: CaptionedImage) -> "Image":
    """Return an image in RGB, over white where it is transparent; raise DataError naming it if it is broken."""
    from PIL import Image

    try:
        with Image.open(path) as file:
            if "A" not in file.getbands() and "transparency" not in file.info:
                return file.convert("RGB")
            image = file.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", image.size, WHITE), image).convert("RGB")
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        problem = " ".join(str(error).split())
        raise DataError(f"{path}, the file of image {picture.id}, is broken: {problem}. Download it again.") from None


def _square(image: "Image", size: int) -> Pixels:
    from PIL.Image import Resampling

    shorter = min(image.size)
    width, height = (max(size, round(side * size / shorter)) for side in image.size)
    if (width, height) != image.size:
        image = image.resize((width, height), Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    return np.asarray(image.crop((left, top, left + size, top + size)), np.uint8)
