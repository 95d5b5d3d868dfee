"""Small annotated images, written to files, and a task prepared from them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from bench_captioning.plugin import CaptioningConfig

SPLITS = {"train": 6, "val": 3, "test": 4}  # images of each
RANDOM = {"kind": "resnet", "widths": [4, 6], "size": 32}


def coco(splits=SPLITS, each=2):
    """Return annotations in COCO's layout, with ids from 100 on and a `split` for each image."""
    images = [split for split, number in splits.items() for _ in range(number)]
    images = [
        {"id": 100 + place, "file_name": f"{place:03}.jpg", "split": split} for place, split in enumerate(images)
    ]
    annotations = [
        {
            "id": 10 * image["id"] + n,
            "image_id": image["id"],
            "caption": f"Caption {n} of a {image['split']} dog {n}.",
        }
        for n in range(each)
        for image in images
    ]
    return {"images": images, "annotations": annotations}


@pytest.fixture
def data(tmp_path):
    """Return a data directory with the annotations and a folder of images."""
    write(tmp_path / "a.json", coco())
    (tmp_path / "images").mkdir()
    for image in coco()["images"]:
        pixels = np.random.default_rng(image["id"]).integers(0, 255, (40, 50, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / image["file_name"])
    return tmp_path


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def prepare(data):
    """Return a function that prepares a task of the annotations, with features of a tiny network."""

    def prepared(**settings):
        folder = data / f"folder-{len(list(data.iterdir()))}"
        folder.mkdir()
        plain = {"corpus": {"file": "a.json", "images": "images"}, "features": RANDOM, "min_count": 1}
        config = CaptioningConfig.model_validate(plain | settings)
        task = config.load()(config, folder)
        return task, task.prepare(data)

    return prepared


@pytest.fixture
def annotate(data):
    """Return a function that writes changed annotations over those that are there."""

    def changed(change):
        content = coco()
        change(content)
        write(data / "a.json", content)

    return changed
