"""Pixels: squares of one size from images of any size and mode, each with the captions of its image."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError

import bench_core
from bench_authors.testing import TASK_CONTRACTS, TaskCase, check_task
from bench_captioning.drawing import render
from bench_captioning.plugin import CaptioningConfig
from bench_captioning.scenes import scenes
from bench_core import DataError, Purpose, Rng, Size, Source

from .conftest import write

PIXELS = {"features": {"kind": "pixels", "size": 16}}
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def sources(task, split, purpose=Purpose.DECODE):
    (batch,) = task.batches(split, purpose, Size(100))
    return batch.source


def strips(size, *colours):
    """Return an image of vertical strips of equal width."""
    image = Image.new("RGB", size)
    width = size[0] // len(colours)
    for place, colour in enumerate(colours):
        image.paste(colour, (place * width, 0, (place + 1) * width, size[1]))
    return image


def transparent():
    image = Image.new("RGBA", (20, 20), (*RED, 255))
    image.paste((*BLUE, 0), (10, 0, 20, 20))
    return image


@pytest.mark.parametrize(
    ("image", "left", "right"),
    [
        (strips((16, 16), RED, BLUE), RED, BLUE),
        (strips((8, 30), GREEN), GREEN, GREEN),
        (strips((90, 30), RED, GREEN, BLUE), GREEN, GREEN),  # the middle square
        (Image.new("L", (40, 20), 51), (51, 51, 51), (51, 51, 51)),
        (transparent(), RED, (255, 255, 255)),
        (strips((32, 32), BLUE, RED).quantize(4), BLUE, RED),
        (Image.new("1", (5, 5), 1), (255, 255, 255), (255, 255, 255)),
    ],
    ids=["rgb", "small", "wide", "grey", "transparent", "palette", "one-bit"],
)
def test_images_of_every_size_and_mode_become_rgb_squares(data, prepare, image, left, right):
    image.save(data / "images" / "010.png")
    (data / "images" / "010.png").rename(data / "images" / "010.jpg")  # the content decides how it is read
    task, info = prepare(**PIXELS)
    assert info.source_shape == (3, 16, 16)
    found = sources(task, "test")
    assert (found.dtype, found.min() >= 0, found.max() <= 1) == (torch.float32, True, True)
    for column, colour in ((2, left), (13, right)):
        assert (found[1, :, 8, column] * 255).round().tolist() == list(colour)


def test_pixels_of_scenes_are_as_drawn(tmp_path):
    config = CaptioningConfig.model_validate(
        {"corpus": {"name": "scenes", "images": 5, "pixels": 32}, "min_count": 1}
    )
    task = config.load()(config, tmp_path)
    assert task.prepare(tmp_path).source_shape == (3, 32, 32)
    for split, drawn in scenes(config.corpus).items():
        expected = np.stack([render(scene, 32) for scene in drawn]).transpose(0, 3, 1, 2)
        assert torch.equal((sources(task, split) * 255).round().byte(), torch.from_numpy(expected))


def test_every_purpose_reads_the_same_pixels_of_an_image(prepare):
    task, _ = prepare(**PIXELS)

    def rows(batches):
        pairs = (
            (number // 10, image) for batch in batches for number, image in zip(batch.ids, batch.source, strict=True)
        )
        found: dict[int, list] = {}
        for image_number, image in pairs:
            found.setdefault(int(image_number), []).append(image)
        return found

    expected = sources(task, "train")
    assert len(expected.flatten(1).unique(dim=0)) == 6
    for batches in (
        task.batches("train", Purpose.SCORE, Size(5)),
        task.batches("train", Purpose.TRAIN, Size(5), Rng(3)),
        task.batches("train", Purpose.TRAIN, Size(30, "tokens"), Rng(4)),
    ):
        found = rows(batches)
        assert all(torch.equal(image, expected[number]) for number, each in found.items() for image in each)
        assert [len(found[number]) for number in range(6)] == [2] * 6


@pytest.mark.parametrize("content", [b"no image", b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1", None])
def test_a_damaged_image_is_named(data, prepare, content):
    image = data / "images" / "007.jpg"
    image.write_bytes(image.read_bytes()[:400] if content is None else content)
    with pytest.raises(DataError, match=r"007\.jpg, the file of image 107, is broken: .*Download it again"):
        prepare(**PIXELS)


def test_pixels_keep_the_contracts(data):
    (data / "folder").mkdir()
    plain = {"corpus": {"file": "a.json", "images": "images"}, "min_count": 1, **PIXELS}
    case = TaskCase.of(CaptioningConfig.model_validate(plain), data, data / "folder")
    assert len(check_task(case)) == len(TASK_CONTRACTS)


def test_a_changed_image_changes_the_digests_of_pixels(data):
    config = CaptioningConfig.model_validate({"corpus": {"file": "a.json", "images": "images"}, **PIXELS})
    before = config.reads(data)
    Image.new("RGB", (9, 9), RED).save(data / "images" / "004.jpg")
    after = config.reads(data)
    assert [name for name in before if after[name] != before[name]] == ["images"]


@pytest.mark.parametrize(
    "corpus", [{"file": "a.json", "images": "images"}, {"file": "a.json"}, {"name": "own"}], ids=str
)
def test_a_strict_run_reads_no_image_outside_its_key(data, corpus):
    (data / "own").mkdir()
    write(data / "own" / "captions.json", json.loads((data / "a.json").read_text()))
    for place in ("own/images", "."):
        shutil.copytree(data / "images", data / place, dirs_exist_ok=True)
    suite = {"suite": "images", "tasks": {"images": {"name": "captioning", "corpus": corpus, **PIXELS}}}
    write(data / "suite.yaml", suite)
    bench_core.run(data / "suite.yaml", store=data / "store", out=data / "runs", data=data, workers=0, strict=True)
    assert len([*data.glob("store/prepare/*/manifest.json")]) == 1  # a refused stage stores nothing


def test_form_is_a_setting_of_features():
    assert CaptioningConfig().source is Source.IMAGE
    resnet = CaptioningConfig.model_validate({"features": "resnet"})
    assert (resnet.form, resnet.source) == ("vector", Source.VECTOR)
    assert CaptioningConfig.model_validate({"features": "resnet", "form": "grid"}).source is Source.GRID
    with pytest.raises(ValidationError, match="`form: grid` is a setting of features, but `features` are pixels"):
        CaptioningConfig(form="grid")


def test_only_images_to_open_or_scale_need_the_extra():
    def extras(**settings):
        return CaptioningConfig.model_validate(settings).extras()

    assert extras() == extras(features={"kind": "pixels", "size": 64}) == extras(features={"folder": "x"}) == set()
    assert extras(corpus="flickr8k-mini") == extras(features={"kind": "pixels", "size": 32}) == {"images"}
    assert extras(features="resnet") == {"features"}


def test_decomposed_letters_are_read_as_composed_ones(prepare, annotate):
    def decompose(content):
        for annotation in content["annotations"]:
            annotation["caption"] = "A cafe\u0301 and a dog"

    annotate(decompose)
    task, info = prepare(**PIXELS)
    assert "caf\u00e9" in info.vocabulary
    assert task.references("test")[0] == ["A caf\u00e9 and a dog"] * 2
    assert info.extras["statistics"]["test"]["unknown"] == 0
